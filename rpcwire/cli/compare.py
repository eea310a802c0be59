"""`rpcwire compare`: two runs, or one run captured at both ends."""

from __future__ import annotations

import json
import sys

import click

from rpcwire.cli.options import FILE, as_json, ports
from rpcwire.cli.pricing import priced_on, pricing
from rpcwire.cli.progress import ProgressLine


@click.command("compare", short_help="the same job with and without: what grew, and why")
@click.argument("a", type=FILE, metavar="A")
@click.argument("b", type=FILE, metavar="B")
@pricing
@ports
@click.option("-v", "--verbose", count=True, help="Show every phase and role.")
@as_json
def command(  # noqa: PLR0917
    a: str,
    b: str,
    link: str | None,
    rtt: str | None,
    bandwidth: str | None,
    ports: frozenset[int] | None,
    verbose: int,
    as_json: bool,
) -> None:
    """Compare two runs per token and per round: what grew, what shrank, what that explains.

    They need not have the same length or prompt. Two captures of one run, taken at both ends, are
    recognised by their frames: then client, wire and worker times are exact.
    """
    from rpcwire.compare import compare
    from rpcwire.output.compare_text import compare_text
    from rpcwire.output.terminal import Style, has_colour

    priced = priced_on(link, rtt, bandwidth)
    with ProgressLine() as progress:
        result = compare(a, b, ports=ports, link=priced, progress=progress)
    if as_json:
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False)
    else:
        text = compare_text(result, Style(has_colour(sys.stdout)), verbose=verbose)
    click.echo(text)

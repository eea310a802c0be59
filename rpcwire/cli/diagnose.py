"""`rpcwire diagnose`: why is it slow?"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from rpcwire.cli.options import as_json, captures, narrowing
from rpcwire.cli.pricing import priced_on, pricing
from rpcwire.cli.progress import ProgressLine

_FAILED = 1


@click.command("diagnose", short_help="name what makes a run slow, prove it and price it")
@captures
@pricing
@click.option(
    "--fail-on", type=click.Choice(["warning", "problem"]),
    help="Exit with 1 when there is a finding as serious as this.",
)  # fmt: skip
@narrowing
@click.option("-v", "--verbose", count=True, help="Evidence and remedies of remarks too.")
@as_json
def command(  # noqa: PLR0917
    captures: tuple[str, ...],
    link: str | None,
    rtt: str | None,
    bandwidth: str | None,
    fail_on: str | None,
    verbose: int,
    as_json: bool,
    **narrowing: Any,
) -> int:
    """Name the causes, each with its evidence, cost per token and remedy, worst first.

    Costs are priced on the recorded link, or on 1 Gbit Ethernet with 0.3 ms when the capture shows
    none; --link and --rtt price them on another.
    """
    from rpcwire.diagnosis import diagnose
    from rpcwire.findings import rank
    from rpcwire.output.diagnose_text import diagnose_text
    from rpcwire.output.terminal import Style, has_colour

    priced = priced_on(link, rtt, bandwidth)
    with ProgressLine() as progress:
        result = diagnose(list(captures), link=priced, progress=progress, **narrowing)
    if as_json:
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False)
    else:
        text = diagnose_text(result, Style(has_colour(sys.stdout)), verbose=verbose)
    click.echo(text)
    if fail_on and any(rank(f.severity) >= rank(fail_on) for f in result.findings):
        return _FAILED
    return 0

"""`rpcwire analyze`: the accounts of a capture."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from rpcwire.cli.options import FILE, as_json, captures, narrowing
from rpcwire.cli.progress import ProgressLine
from rpcwire.output.tables_csv import TABLES, table_csv


@click.command("analyze", short_help="account for bytes and round trips of a capture")
@captures
@click.option(
    "--gguf", type=FILE, metavar="MODEL", help="Compare with the arithmetic of this GGUF file."
)
@click.option(
    "--plot", type=FILE, metavar="OUT", help="Draw bytes by role beside the floor (.svg, .png)."
)
@narrowing
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Show commands, connections, all roles; -vv all connections.",
)
@as_json
@click.option("--csv", "table", type=click.Choice(TABLES), help="Write one table as CSV.")
def command(
    captures: tuple[str, ...],
    plot: str | None,
    verbose: int,
    as_json: bool,
    table: str | None,
    **narrowing: Any,
) -> None:
    """Account for every byte and round trip: by phase, role, worker and generated token."""
    from rpcwire.analysis import analyze
    from rpcwire.output.analysis_text import analysis_text
    from rpcwire.output.terminal import Style, has_colour

    if as_json and table is not None:
        raise click.UsageError("--json and --csv exclude each other")
    with ProgressLine() as progress:
        result = analyze(list(captures), progress=progress, **narrowing)
    if plot is not None:
        from rpcwire.output.plot import write_figure
        from rpcwire.output.plot_bars import role_figure

        write_figure(role_figure(result), plot)
    if table is not None:
        text = table_csv(result, table).rstrip("\n")
    elif as_json:
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False)
    else:
        text = analysis_text(result, Style(has_colour(sys.stdout)), verbose=verbose)
    click.echo(text)

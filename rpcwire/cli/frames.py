"""`rpcwire frames`: one line a frame, as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from rpcwire.cli.options import FILE, as_json, captures, narrowing
from rpcwire.cli.progress import ProgressLine


@click.command("frames", short_help="list the requests and responses of a capture")
@captures
@narrowing
@as_json
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV with a header line.")
@click.option("--parquet", type=FILE, metavar="OUT", help="Write a Parquet file (needs pyarrow).")
def command(
    captures: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
    **narrowing: Any,
) -> None:
    """List every request and response: what it is, what it carries, and what it is part of."""
    from rpcwire.frames import FrameReader
    from rpcwire.output.frame_lines import csv_lines, json_lines, text_lines
    from rpcwire.output.parquet import write_parquet
    from rpcwire.output.terminal import Style, has_colour

    if as_json + as_csv + (parquet is not None) > 1:
        raise click.UsageError("--json, --csv and --parquet exclude each other")
    several = len(captures) > 1
    with ProgressLine() as progress:
        shown = None if sys.stdout.isatty() and parquet is None else progress
        rows = FrameReader(list(captures), progress=shown, **narrowing)
        lines: Iterable[str] = ()
        if parquet is not None:
            write_parquet(rows, parquet)
        elif as_json:
            lines = json_lines(rows, several)
        elif as_csv:
            lines = csv_lines(rows, several)
        else:
            lines = text_lines(rows, Style(has_colour(sys.stdout)))
        for text in lines:
            sys.stdout.write(text)
            sys.stdout.flush()  # a live capture is read as it comes
    for note in rows.notes:
        click.echo(f"rpcwire: {note}", err=True)

"""`rpcwire report`: a run as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rpcwire.cli.options import FILE, captures, narrowing
from rpcwire.cli.progress import ProgressLine
from rpcwire.errors import UsageError


@click.command("report", short_help="one self-contained HTML page with figures")
@captures
@click.option(
    "-o",
    "--output",
    required=True,
    type=FILE,
    metavar="OUT",
    help="The page; - is standard output.",
)
@click.option(
    "--gguf", type=FILE, metavar="MODEL", help="Compare with the arithmetic of this GGUF file."
)
@click.option("--compare", "two", is_flag=True, help="The captures are two runs: set them beside.")
@narrowing
def command(
    captures: tuple[str, ...], output: str, gguf: str | None, two: bool, **narrowing: Any
) -> None:
    """Write a run as one HTML file that needs no network: figures, single tokens, findings.

    With --compare the two captures are two runs, or one run captured at both ends.
    """
    from rpcwire.report.gather import gather
    from rpcwire.report.page import run_page

    with ProgressLine() as progress:
        if two:
            page = _compared(captures, progress, **narrowing)
        else:
            page = run_page(gather(list(captures), gguf=gguf, progress=progress, **narrowing))
    if output == "-":
        click.echo(page, nl=False)
        return
    try:
        Path(output).write_text(page, "utf-8")
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror or error}") from error


def _compared(captures: tuple[str, ...], progress: ProgressLine, **narrowing: Any) -> str:
    from rpcwire.compare import compare
    from rpcwire.report.gather import gather
    from rpcwire.report.page import comparison_page

    if len(captures) != 2 or "-" in captures:
        raise UsageError("--compare takes two captures, both files")
    ports = narrowing.pop("ports")
    if any(value is not None for value in narrowing.values()):
        raise UsageError("--compare takes whole runs: leave out --since, --until and --request")
    found = compare(*captures, ports=ports, progress=progress)
    runs = [gather([path], ports=ports, progress=progress) for path in captures]
    return comparison_page(found, *runs)

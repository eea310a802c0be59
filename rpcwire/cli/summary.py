"""What record and relay print at the end: the accounts of what was recorded, and the file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rpcwire.errors import RpcwireError


def summary(path: Path) -> None:
    """Print the accounts of a recording on standard error, the file's path last."""
    from rpcwire.analysis import analyze
    from rpcwire.output.analysis_text import analysis_text
    from rpcwire.output.terminal import Style, has_colour

    try:
        result = analyze([str(path)])
        text = analysis_text(result, Style(has_colour(sys.stderr)))
    except RpcwireError as error:
        text = f"rpcwire: {error}"
    except KeyboardInterrupt:
        text = f"rpcwire: interrupted; 'rpcwire analyze {path}' shows the accounts"
    click.echo(text, err=True)
    click.echo(f"recorded: {path}", err=True)

"""What record and relay print at the end: the accounts of what was recorded, and the file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rpcwire.errors import RpcwireError


def summary(*paths: Path) -> None:
    """Print the accounts of a recording on standard error, the paths of its files last."""
    from rpcwire.analysis import analyze
    from rpcwire.output.analysis_text import analysis_text
    from rpcwire.output.terminal import Style, has_colour

    names = " ".join(map(str, paths))
    try:
        result = analyze([str(path) for path in paths])
        text = analysis_text(result, Style(has_colour(sys.stderr)))
    except RpcwireError as error:
        text = f"rpcwire: {error}"
    except KeyboardInterrupt:
        text = f"rpcwire: interrupted; 'rpcwire analyze {names}' shows the accounts"
    click.echo(text, err=True)
    click.echo(f"recorded: {names}", err=True)

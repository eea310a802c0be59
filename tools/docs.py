"""Writes what is generated: pages of docs/, man pages, completion scripts (`make docs man`)."""

from __future__ import annotations

import sys
from pathlib import Path

from api_page import api_page

from rpcwire.cli.completion import SHELLS, script
from rpcwire.cli.manpage import pages
from rpcwire.output.protocol_page import protocol_page

ROOT = Path(__file__).parent.parent


def write_docs() -> None:
    """Pages that are kept in the repository."""
    for name, text in (("protocol.md", protocol_page()), ("reference.md", api_page())):
        (ROOT / "docs" / name).write_text(text, "utf-8")


def write_man(folder: Path) -> None:
    """Man pages and completion scripts, in the folders that packagers copy."""
    man = folder / "man" / "man1"
    man.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (man / name).write_text(text, "ascii")
    shells = folder / "completions"
    shells.mkdir(exist_ok=True)
    for shell in SHELLS:
        (shells / f"rpcwire.{shell}").write_text(script(shell), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["docs"]:
        write_docs()
    elif sys.argv[1:] == ["man"]:
        write_man(ROOT / "build" / "share")
    else:
        sys.exit("usage: docs.py docs|man")

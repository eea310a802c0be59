"""The last line of the terminal, on standard error: replaced in place, gone at the end."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

_ERASE = "\r\x1b[K"


class TerminalLine:
    """A context manager that leaves nothing behind; on what is no terminal it shows nothing.

    Args:
        quiet: show none: somebody else writes to the terminal.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.terminal = sys.stderr.isatty() and not quiet
        self._visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def put(self, text: str) -> None:
        """Show a text in place of the one before."""
        if self.terminal:
            self._visible = True
            sys.stderr.write(_ERASE + text)
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the text that is shown, if any."""
        if self._visible:
            self._visible = False
            sys.stderr.write(_ERASE)
            sys.stderr.flush()

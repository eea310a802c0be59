"""One line on a terminal that tells how a recording goes; messages pass above it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rpcwire.output.units import bytes_text


class LiveLine:
    """Shows figures of record.live.Pulse on standard error, where that is a terminal.

    Args:
        quiet: show none: somebody else writes to the terminal.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._terminal = sys.stderr.isatty() and not quiet
        self._visible = False

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear()

    def say(self, line: str) -> None:
        """Print a message."""
        self._clear()
        print(f"rpcwire: {line}", file=sys.stderr, flush=True)

    def show(self, figures: dict[str, Any]) -> None:
        """Show the figures in place of those before."""
        if not self._terminal:
            return
        sys.stderr.write(f"\r\x1b[K{live_text(figures)}")
        sys.stderr.flush()
        self._visible = True

    def _clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False


def live_text(figures: dict[str, Any]) -> str:
    """The figures as one line."""
    if not figures["bytes"]:
        return "waiting for traffic"
    parts = [figures["phase"] or "connecting"]
    if figures["tokens_per_s"]:
        parts.append(f"{figures['tokens_per_s']:.1f} t/s")
        parts.append(f"{figures['kb_up']:,.1f} kB up")
        parts.append(f"{figures['kb_down']:,.1f} kB down")
        parts.append(f"{figures['round_trips']:.1f} round trips per token")
    else:
        parts.append(f"{figures['mb_s']:,.1f} MB/s")
    parts.append(f"{bytes_text(figures['bytes'])} so far")
    if figures["missing"]:
        parts.append(f"{bytes_text(figures['missing'])} lost")
    if figures.get("behind", 0) > 16 << 20:
        parts.append(f"{bytes_text(figures['behind'])} to catch up")
    return " · ".join(parts)

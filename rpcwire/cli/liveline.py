"""One line on a terminal that tells how a recording goes; messages pass above it."""

from __future__ import annotations

import sys
from typing import Any

from rpcwire.cli.termline import TerminalLine
from rpcwire.output.units import bytes_text


class LiveLine(TerminalLine):
    """Shows figures of record.live.Pulse."""

    def say(self, line: str) -> None:
        """Print a message."""
        self.clear()
        print(f"rpcwire: {line}", file=sys.stderr, flush=True)

    def show(self, figures: dict[str, Any]) -> None:
        """Show the figures in place of those before."""
        if self.terminal:
            self.put(live_text(figures))


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

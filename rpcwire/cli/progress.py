"""A progress line on standard error, on terminals only, for what takes longer than a second."""

from __future__ import annotations

import time

from rpcwire.cli.termline import TerminalLine
from rpcwire.output.units import bytes_text, seconds_text

_PATIENCE, _PERIOD = 1.0, 0.1
_BAR = 24


class ProgressLine(TerminalLine):
    """Called with bytes read and bytes in all; shows a bar, and removes it at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = self._shown = time.monotonic()

    def __call__(self, read: int, total: int) -> None:
        """Show how far it is."""
        now = time.monotonic()
        elapsed = now - self._begun
        if not self.terminal or elapsed < _PATIENCE or now - self._shown < _PERIOD:
            return
        self._shown = now
        text = f"{bytes_text(read)} read"
        if total:
            share = min(1.0, read / total)
            done = int(share * _BAR)
            left = seconds_text(elapsed * (1 - share) / share) if share else "-"
            bar = "#" * done + "." * (_BAR - done)
            text = f"[{bar}] {share:4.0%} of {bytes_text(total)}, {left} left"
        self.put(text)

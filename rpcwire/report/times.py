"""Durations on a logarithmic scale: how often each came, in bounded memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

PER_DECADE = 8
LOW_NS, DECADES = 100, 13  #: 100 ns to some 11 days
_MOST_NAMES = 64
_FIRST = math.log10(LOW_NS)


class Histogram:
    """Counts of durations; bin i begins at LOW_NS * 10^(i / PER_DECADE)."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * (PER_DECADE * DECADES)

    def add(self, value_ns: int) -> None:
        """Take a duration."""
        if value_ns <= LOW_NS:
            self.counts[0] += 1
            return
        place = int((math.log10(value_ns) - _FIRST) * PER_DECADE)
        self.counts[min(place, len(self.counts) - 1)] += 1

    def filled(self) -> tuple[int, int]:
        """First bin with something in it, and the one after the last."""
        places = [i for i, count in enumerate(self.counts) if count]
        return (places[0], places[-1] + 1) if places else (0, 0)


def edge_ms(place: int) -> float:
    """Where a bin begins, in ms."""
    return float(LOW_NS * 10 ** (place / PER_DECADE) / 1e6)


class Times:
    """Response times by command."""

    def __init__(self) -> None:
        self.commands: dict[str, Histogram] = {}

    def frame(self, frame: Frame) -> None:
        """Take a frame; responses count, while they know their requests."""
        asked = frame.request
        if asked is None:
            return
        found = self.commands.get(frame.command)
        if found is None:
            if len(self.commands) >= _MOST_NAMES:
                return
            found = self.commands[frame.command] = Histogram()
        found.add(max(0, frame.time_ns - asked.end_ns))

"""Distributions of durations on a logarithmic scale, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpcwire.output.plot import WIDE, Figure, decades, log_part
from rpcwire.output.units import ms_text

_ROW, _BARS = 46, 32
_TOP, _FOOT = 30, 36


@dataclass(frozen=True, slots=True)
class Spread:
    """One distribution: counts between consecutive edges in ms, and its median and p95."""

    name: str
    edges: Sequence[float]
    counts: Sequence[int]
    median_ms: float
    p95_ms: float


def times_figure(spreads: Sequence[Spread], title: str, width: int = WIDE) -> Figure:
    """A histogram a row, as high as its own highest bar; lines at median and 95th percentile."""
    left = 190 if width >= 500 else 8
    row = _ROW if width >= 500 else _ROW + 16
    low = min((s.edges[0] for s in spreads), default=0.1)
    high = max((s.edges[-1] for s in spreads), default=1.0)
    said = "; ".join(
        f"{s.name}: {sum(s.counts):,}, median {ms_text(s.median_ms)}, "
        f"95 % within {ms_text(s.p95_ms)}"
        for s in spreads
    )
    bottom = _TOP + row * len(spreads)
    figure = Figure(title, f"{said or 'Nothing was answered'}.", width, bottom + _FOOT)
    figure.text(8, 16, title, size=14)
    right = width - 20

    def x(ms: float) -> float:
        return left + log_part(ms, low, high) * (right - left)

    powers = decades(low, high)
    for value in powers[:: 1 + len(powers) // (6 if width < 500 else 12)]:
        figure.line(x(value), _TOP, x(value), bottom)
        figure.text(x(value), bottom + 15, ms_text(value), "middle", colour="muted")
    for number, spread in enumerate(spreads):
        base = _TOP + row * (number + 1) - 2
        if width >= 500:
            figure.clipped(left - 8, base - 12, spread.name, left - 12, "end")
        else:
            figure.clipped(left, base - _BARS - 4, spread.name, width - 16)
        most = max(spread.counts, default=0) or 1
        for i, count in enumerate(spread.counts):
            if count:
                a, b = x(spread.edges[i]), x(spread.edges[i + 1])
                size = max(1.5, count / most * _BARS)
                tip = f"{ms_text(spread.edges[i])} to {ms_text(spread.edges[i + 1])}: {count:,}"
                figure.rect(a, base - size, max(1.0, b - a - 0.6), size, "prefill", tip)
        for ms, colour in ((spread.median_ms, "up"), (spread.p95_ms, "down")):
            figure.line(x(ms), base - _BARS, x(ms), base, colour, 2)
        figure.line(left, base, right, base, "axis")
    words = "ms, logarithmic; blue: median, red: 95th percentile"
    figure.text(right, bottom + 31, words, "end", colour="muted")
    return figure

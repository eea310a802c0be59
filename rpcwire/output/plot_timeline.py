"""A run over its time: phases, throughput both ways, requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rpcwire.output.plot import WIDE, Figure, decades, legend, log_part, ticks
from rpcwire.output.units import bytes_text, seconds_text

_LEFT, _RIGHT = 62, 10
_STRIP, _HALF, _GAP = 26, 84, 8
_REQUESTS = 12
_LEAST = 1e2  #: bytes a second at the foot of the scale, if the top allows


@dataclass(frozen=True, slots=True)
class TimelineData:
    """What is drawn; bins from `start_s` on, `bin_s` wide each.

    Attributes:
        shares: by phase, its part of each bin's time. up, down: bytes a second.
        requests: (start, end of the prompt, end) in seconds, of the same clock as `start_s`.
    """

    start_s: float
    bin_s: float
    shares: Mapping[str, Sequence[float]]
    up: Sequence[float]
    down: Sequence[float]
    requests: Sequence[tuple[float, float, float]] = ()

    @property
    def bins(self) -> int:
        """How many."""
        return len(self.up)


def timeline_figure(data: TimelineData, title: str, width: int = WIDE) -> Figure:
    """Phases as a strip, throughput up (upwards) and down (downwards) on a logarithmic scale."""
    data = _thinned(data, width)
    top = max((*data.up, *data.down), default=0.0)
    high = 10.0 ** len(str(int(max(top, 10.0))))
    low = min(_LEAST, high / 1e3)
    strip = 58 if width >= 500 else 78
    rows = strip + _STRIP + _GAP
    middle = rows + _HALF
    bottom = middle + _HALF
    lower = bottom + (_REQUESTS + 6 if data.requests else 0)
    total = data.bins * data.bin_s
    figure = Figure(title, _description(data, total), width, lower + 38)
    figure.text(8, 16, title, size=14)
    named = [(phase, phase) for phase in data.shares]
    legend(figure, 8, 36, [*named, ("up", "up"), ("down", "down")])
    step = (width - _LEFT - _RIGHT) / max(1, data.bins)
    _phases(figure, data, strip, step)
    _scale(figure, low, high, middle)
    for rates, colour, way in ((data.up, "up", -1), (data.down, "down", 1)):
        parts = []
        for i, rate in enumerate(rates):
            if rate > 0:
                size = max(1.0, log_part(rate, low, high) * _HALF)
                y = middle - size if way < 0 else middle
                parts.append(_box(_LEFT + i * step, y, step, size))
        figure.path("".join(parts), colour)
    figure.line(_LEFT, middle, width - _RIGHT, middle, "axis")
    _requests(figure, data, bottom + 6, step)
    _seconds(figure, data, total, lower)
    return figure


def _description(data: TimelineData, total: float) -> str:
    busy = ", ".join(
        f"{phase} {seconds_text(sum(shares) * data.bin_s)}" for phase, shares in data.shares.items()
    )
    return (
        f"{seconds_text(total)} from second {data.start_s:.3f} on. "
        f"Time by phase: {busy or 'none'}. "
        f"Most in a moment: {bytes_text(max(data.up, default=0))}/s up, "
        f"{bytes_text(max(data.down, default=0))}/s down."
    )


def _phases(figure: Figure, data: TimelineData, top: int, step: float) -> None:
    """The phases of each bin, on top of each other, as high as their part of its time."""
    filled = [0.0] * data.bins
    for phase, shares in data.shares.items():
        parts = []
        for i, share in enumerate(shares):
            size = min(share, 1.0 - filled[i])
            if size > 0.004:
                y = top + (1 - filled[i] - size) * _STRIP
                parts.append(_box(_LEFT + i * step, y, step, size * _STRIP))
                filled[i] += size
        figure.path("".join(parts), phase)
    figure.text(_LEFT - 6, top + 17, "phases", "end", colour="muted")
    figure.line(_LEFT, top + _STRIP, figure.width - _RIGHT, top + _STRIP, "axis")


def _scale(figure: Figure, low: float, high: float, middle: int) -> None:
    powers = decades(low, high)
    for value in powers[:: 1 + len(powers) // 5]:
        size = log_part(value, low, high) * _HALF
        for way in (-1, 1):
            y = middle + way * size
            figure.line(_LEFT, y, figure.width - _RIGHT, y)
            if size > 8:
                figure.text(_LEFT - 6, y + 4, f"{bytes_text(value)}/s", "end", colour="muted")


def _requests(figure: Figure, data: TimelineData, y: int, step: float) -> None:
    if not data.requests:
        return
    figure.text(_LEFT - 6, y + 10, "requests", "end", colour="muted")
    for number, (start, prompt, end) in enumerate(data.requests, 1):
        a, b, c = ((t - data.start_s) / data.bin_s * step for t in (start, prompt, end))
        tip = f"request {number}: {seconds_text(end - start)}"
        figure.rect(_LEFT + a, y, max(1.0, b - a), _REQUESTS - 2, "prefill", tip)
        figure.rect(_LEFT + b, y, max(0.5, c - b), _REQUESTS - 2, "decode", tip)


def _seconds(figure: Figure, data: TimelineData, total: float, y: int) -> None:
    scale, unit = (60.0, "min") if total > 300 else (1.0, "s")
    if total < 1:
        scale, unit = 1e-3, "ms"
    for value in ticks(total / scale, 5 if figure.width < 500 else 9):
        x = _LEFT + value * scale / total * (figure.width - _LEFT - _RIGHT) if total else _LEFT
        figure.line(x, y, x, y + 4, "axis")
        figure.text(x, y + 17, f"{value:g}", "middle", colour="muted")
    words = f"{unit}, from second {data.start_s:.3f} of the capture on"
    figure.text(figure.width - _RIGHT, y + 32, words, "end", colour="muted")


def _box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle between whole pixels, so that neighbours touch and no light comes through."""
    left, right = round(x), max(round(x) + 1, round(x + width))
    return f"M{left} {y:.1f}h{right - left}v{height:.1f}h{left - right}z"


def _thinned(data: TimelineData, width: int) -> TimelineData:
    """Fewer bins where a bin would be thinner than two pixels."""
    while data.bins > (width - _LEFT - _RIGHT) / 1.6:
        data = TimelineData(
            data.start_s,
            data.bin_s * 2,
            {phase: _halved(shares) for phase, shares in data.shares.items()},
            _halved(data.up),
            _halved(data.down),
            data.requests,
        )
    return data


def _halved(values: Sequence[float]) -> list[float]:
    pairs = [*values, *([0.0] if len(values) % 2 else [])]
    return [(pairs[i] + pairs[i + 1]) / 2 for i in range(0, len(pairs), 2)]

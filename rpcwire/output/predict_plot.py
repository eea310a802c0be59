"""A chart of a prediction: tokens/s against the round trip, a curve for each bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rpcwire.output.plot import SERIES, Figure, log_part, ticks, write_figure
from rpcwire.predict.prediction import Prediction, speed_at

#: Curves: Mbit/s and what they are called.
RATES = ((100.0, "100 Mbit/s"), (1000.0, "1 Gbit/s"), (10000.0, "10 Gbit/s"))
RTT_MS = (0.03, 300.0)
POINTS = 90
WIDTH, HEIGHT = 760, 460
_CLOSE = 13  #: pixels between the beginnings of two names on the same side
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 130, 34, 52


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: curves of (ms, tokens/s) and named points, and the y axis's upper end."""

    curves: list[tuple[str, list[tuple[float, float]]]]
    points: list[tuple[str, float, float]]
    top: float
    title: str
    y_label: str


def make_chart(prediction: Prediction) -> Chart:
    """Work out the curves and where the links lie on them."""
    low, high = (math.log10(value) for value in RTT_MS)
    steps = [10 ** (low + (high - low) * i / (POINTS - 1)) for i in range(POINTS)]
    curves = [
        (name, [(ms, speed_at(prediction, ms / 1e3, rate * 1e6 / 8)) for ms in steps])
        for rate, name in RATES
    ]
    points = [
        (result.link.name, result.link.rtt_ms[1], speed_at(prediction, *result.link.case(1)))
        for result in prediction.links
    ]
    known = prediction.compute is not None
    values = [value for _, curve in curves for _, value in curve] + [y for _, _, y in points]
    top = max((value for value in values if math.isfinite(value)), default=1.0)
    model = prediction.scenario.model
    return Chart(
        curves=curves,
        points=points,
        top=top * 1.08,
        title=f"{model.name or model.arch}: tokens/s against the round trip",
        y_label="tokens/s" if known else "tokens/s the network allows",
    )


def write_plot(prediction: Prediction, path: str) -> None:
    """Write the chart as .svg, or as .png with the extra `plot`.

    Raises:
        UsageError: another ending, no resvg_py, or a file that cannot be written.
    """
    write_figure(draw(make_chart(prediction)), path)


def draw(chart: Chart) -> Figure:
    """The chart as a figure."""
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    figure = Figure(chart.title, _description(chart), WIDTH, HEIGHT)
    figure.text(_LEFT, 20, chart.title, size=14)
    for value in ticks(chart.top):
        y = _y(value, chart.top)
        figure.line(_LEFT, y, right, y)
        figure.text(_LEFT - 6, y + 4, f"{value:g}", "end")
    for ms in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0):
        figure.line(_x(ms), _TOP, _x(ms), bottom)
        figure.text(_x(ms), bottom + 16, f"{ms:g}", "middle")
    figure.line(_LEFT, bottom, right, bottom, "axis")
    figure.line(_LEFT, _TOP, _LEFT, bottom, "axis")
    figure.text((_LEFT + right) / 2, HEIGHT - 12, "round trip, ms", "middle")
    figure.text(16, (_TOP + bottom) / 2, chart.y_label, "middle", turn=-90)
    for number, (name, curve) in enumerate(chart.curves):
        colour = SERIES[number % len(SERIES)]
        figure.curve(((_x(ms), _y(value, chart.top)) for ms, value in curve), colour)
        y = _TOP + 16 + 20 * number
        figure.line(right + 10, y, right + 30, y, colour, 2)
        figure.text(right + 36, y + 4, name)
    for name, ms, value in chart.points:
        tip = f"{name}: {value:.3g} {chart.y_label}"
        figure.circle(_x(ms), _y(value, chart.top), tip=tip)
    for name, x, y, turn in _labels(chart):
        figure.text(x, y, name, size=10, turn=turn)
    return figure


def _labels(chart: Chart) -> list[tuple[str, float, float, int]]:
    """Names of the links, where each goes and how it is turned: close ones on either side."""
    found: list[tuple[str, float, float, int]] = []
    taken = {-1: -math.inf, 1: -math.inf}  # x of the last name above and below
    for name, ms, value in sorted(chart.points, key=lambda point: point[1]):
        x, y = _x(ms), _y(value, chart.top)
        side = min(taken, key=lambda one: (max(taken[one] + _CLOSE - x - 4, 0), one))
        start = max(x + 4, taken[side] + _CLOSE)
        taken[side] = start
        found.append((name, start, y - 6 if side < 0 else y + 14, 35 * side))
    return found


def _description(chart: Chart) -> str:
    points = ", ".join(f"{name} {value:.3g}" for name, _, value in chart.points)
    return f"{chart.y_label} by round-trip time, a curve a bandwidth; the links: {points}."


def _x(ms: float) -> float:
    return _LEFT + log_part(ms, *RTT_MS) * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - min(value / top, 1.0) * (HEIGHT - _TOP - _BOTTOM)

"""A chart of a prediction: tokens/s against the round trip, a curve for each bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from rpcwire.errors import UsageError
from rpcwire.predict.prediction import Prediction, speed_at

#: Curves: Mbit/s and what they are called.
RATES = ((100.0, "100 Mbit/s"), (1000.0, "1 Gbit/s"), (10000.0, "10 Gbit/s"))
#: Colours told apart with any colour vision (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
RTT_MS = (0.03, 300.0)
POINTS = 90
WIDTH, HEIGHT = 760, 460
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
    """Write the chart as .svg, or as .png where matplotlib is installed.

    Raises:
        UsageError: another ending, no matplotlib, or a file that cannot be written.
    """
    chart = make_chart(prediction)
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".svg":
            Path(path).write_text(svg(chart), "utf-8")
        elif suffix == ".png":
            _png(chart, path)
        else:
            raise UsageError(f"--plot {path}: the file must end in .svg or .png")
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror or error}") from error


def _x(ms: float) -> float:
    low, high = (math.log10(value) for value in RTT_MS)
    part = (math.log10(min(max(ms, RTT_MS[0]), RTT_MS[1])) - low) / (high - low)
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - min(value / top, 1.0) * (HEIGHT - _TOP - _BOTTOM)


def _ticks(top: float) -> list[float]:
    step = 10 ** math.floor(math.log10(top)) if top > 0 else 1.0
    for divide in (1, 2, 5, 10):
        if top / (step / divide) >= 4:
            step /= divide
            break
    return [step * i for i in range(int(top / step) + 1)]


def svg(chart: Chart) -> str:
    """The chart as a self-contained SVG document."""
    bottom = HEIGHT - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(chart.title)}</text>',
    ]
    for value in _ticks(chart.top):
        y = _y(value, chart.top)
        parts.append(_line(_LEFT, y, WIDTH - _RIGHT, y, "#e0e0e0"))
        parts.append(_text(_LEFT - 6, y + 4, f"{value:g}", "end"))
    for ms in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0):
        parts.append(_line(_x(ms), _TOP, _x(ms), bottom, "#f0f0f0"))
        parts.append(_text(_x(ms), bottom + 16, f"{ms:g}", "middle"))
    parts.append(_line(_LEFT, bottom, WIDTH - _RIGHT, bottom, "#404040"))
    parts.append(_line(_LEFT, _TOP, _LEFT, bottom, "#404040"))
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 12, "round trip, ms", "middle"))
    parts.append(
        f'<text transform="translate(16 {(_TOP + bottom) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(chart.y_label)}</text>'
    )
    for number, (name, curve) in enumerate(chart.curves):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(ms):.1f},{_y(value, chart.top):.1f}" for ms, value in curve)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + 16 + 20 * number
        parts.append(_line(WIDTH - _RIGHT + 10, y, WIDTH - _RIGHT + 30, y, colour, 2))
        parts.append(_text(WIDTH - _RIGHT + 36, y + 4, name, "start"))
    for name, ms, value in chart.points:
        x, y = _x(ms), _y(value, chart.top)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#202020"/>')
        parts.append(
            f'<text transform="translate({x + 4:.1f} {y - 6:.1f}) rotate(-35)" '
            f'font-size="10">{escape(name)}</text>'
        )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:  # noqa: PLR0917
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _png(chart: Chart, path: str) -> None:
    try:
        import matplotlib  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise UsageError(
            "--plot: a .png needs matplotlib (pip install matplotlib); .svg needs nothing"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100), dpi=150)
    for number, (name, curve) in enumerate(chart.curves):
        colour = COLOURS[number % len(COLOURS)]
        axes.semilogx([ms for ms, _ in curve], [v for _, v in curve], color=colour, label=name)
    for name, ms, value in chart.points:
        axes.plot([ms], [value], "o", color="#202020", markersize=4)
        axes.annotate(
            name, (ms, value), fontsize=7, rotation=35, xytext=(3, 3), textcoords="offset points"
        )
    axes.set(xlabel="round trip, ms", ylabel=chart.y_label, title=chart.title, ylim=(0, chart.top))
    axes.grid(color="#e0e0e0")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)

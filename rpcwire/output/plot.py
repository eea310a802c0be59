"""One writer of figures: SVG with a title, a description and colours that a page may replace.

A colour goes by name: it is written as an attribute for a file that stands alone, and as a class
(`f-up`, `s-up`) that a page's style sheet overrides for a dark background or for print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from rpcwire.errors import UsageError
from rpcwire.output.markup import Child, Markup, element, joined

#: Colours told apart with any colour vision (Okabe and Ito), and greys.
COLOURS = {
    "ink": "#202020",
    "muted": "#606060",
    "axis": "#404040",
    "grid": "#e4e4e4",
    "paper": "#ffffff",
    "up": "#0072b2",
    "down": "#d55e00",
    "worker": "#009e73",
    "client": "#8c8c8c",
    "floor": "#b0006d",
    "load": "#999999",
    "warmup": "#f0e442",
    "prefill": "#56b4e9",
    "decode": "#009e73",
    "verify": "#6a4fb0",
    "draft": "#e69f00",
    "state": "#cc79a7",
    "other": "#d0d0d0",
}
#: Colours for curves, in order.
SERIES = ("up", "down", "worker", "floor")
WIDE, NARROW = 860, 350
_FONT = 12


class Figure:
    """A figure under construction; sizes and places in pixels.

    Args:
        title: names it. description: what a reader who does not see it has to know.
        width, height: of the whole.
    """

    def __init__(self, title: str, description: str, width: int, height: int) -> None:
        self.title, self.description = title, description
        self.width, self.height = width, height
        self._parts: list[Markup] = []

    def line(  # noqa: PLR0917
        self, x1: float, y1: float, x2: float, y2: float, colour: str = "grid", width: float = 1
    ) -> None:
        """A straight line."""
        self._add("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), **_stroke(colour, width))

    def rect(  # noqa: PLR0917
        self, x: float, y: float, width: float, height: float, colour: str, tip: str | None = None
    ) -> None:
        """A filled rectangle; `tip` shows where a pointer rests on it."""
        sizes = {"width": _n(max(0.0, width)), "height": _n(max(0.0, height))}
        self._add("rect", _tip(tip), x=_n(x), y=_n(y), **sizes, **_fill(colour))

    def circle(self, x: float, y: float, colour: str = "ink", tip: str | None = None) -> None:
        """A point."""
        self._add("circle", _tip(tip), cx=_n(x), cy=_n(y), r="3.5", **_fill(colour))

    def path(self, commands: str, colour: str) -> None:
        """A filled path."""
        if commands:
            self._add("path", d=commands, shape_rendering="crispEdges", **_fill(colour))

    def curve(self, points: Iterable[tuple[float, float]], colour: str) -> None:
        """A line through points."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._add("polyline", points=places, **(_stroke(colour, 2) | {"fill": "none"}))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = "start",
        *,
        colour: str = "ink",
        size: int | None = None,
        turn: float | None = None,
    ) -> None:
        """Words; `anchor` is start, middle or end, `turn` in degrees."""
        place: dict[str, Child] = {"x": _n(x), "y": _n(y)}
        if turn is not None:
            place = {"transform": f"translate({_n(x)} {_n(y)}) rotate({turn:g})"}
        self._add("text", words, **place, text_anchor=anchor, font_size=size, **_fill(colour))

    def clipped(self, x: float, y: float, words: str, width: float, anchor: str = "start") -> None:
        """Words cut to about a width."""
        most = max(1, int(width / (_FONT * 0.53)))
        self.text(x, y, words if len(words) <= most else words[: most - 1] + "…", anchor)

    def svg(self, name: str | None = None) -> Markup:
        """The figure as markup.

        Args:
            name: id in a page, unique there; None makes a document that stands alone.
        """
        sizes: dict[str, Child] = {
            "viewBox": f"0 0 {self.width} {self.height}",
            "width": self.width,
            "height": self.height,
            "role": "img",
            "font_family": "sans-serif",
            "font_size": _FONT,
        }
        title, description = f"{name or 'figure'}-title", f"{name or 'figure'}-desc"
        head = [
            element("title", self.title, id=title),
            element("desc", self.description, id=description),
        ]
        sizes["aria_labelledby"] = f"{title} {description}"
        if name is None:
            sizes["xmlns"] = "http://www.w3.org/2000/svg"
            head.append(
                element("rect", width=self.width, height=self.height, **_fill("paper")),
            )
        return element("svg", joined(*head, *self._parts), **sizes)

    def _add(self, name: str, *children: Child, **attributes: Child) -> None:
        self._parts.append(element(name, *children, **attributes))


def write_figure(figure: Figure, path: str) -> None:
    """Write a figure as .svg, or as .png with the extra `plot`.

    Raises:
        UsageError: another ending, no resvg_py, or a file that cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise UsageError(f"--plot {path}: the file must end in .svg or .png")
    markup = figure.svg() + "\n"
    data = markup.encode() if suffix == ".svg" else _png(markup)
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror or error}") from error


def _png(markup: str) -> bytes:
    try:
        import resvg_py
    except ImportError:
        raise UsageError(
            "--plot: a .png needs resvg_py (pip install 'rpcwire[plot]'); .svg needs nothing"
        ) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=markup, zoom=2))


def ticks(top: float, most: int = 10) -> list[float]:
    """Round values from 0 up to `top`, at least four where they fit."""
    if top <= 0 or not math.isfinite(top):
        return [0.0]
    step = 10.0 ** math.floor(math.log10(top))
    for divide in (1, 2, 5, 10):
        if top / (step / divide) >= 4:
            step /= divide
            break
    while top / step > most:
        step *= 2
    return [step * i for i in range(int(top / step) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, both positive."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def log_part(value: float, low: float, high: float) -> float:
    """Where a value lies between two on a logarithmic scale, 0 to 1."""
    value = min(max(value, low), high)
    return math.log10(value / low) / math.log10(high / low)


def legend(figure: Figure, x: float, y: float, entries: Sequence[tuple[str, str]]) -> float:
    """Coloured squares with words from (x, y) on, in lines; returns the y of the last line."""
    at = x
    for colour, words in entries:
        width = 22 + len(words) * _FONT * 0.53
        if at > x and at + width > figure.width - 4:
            at, y = x, y + 18
        figure.rect(at, y - 9, 10, 10, colour)
        figure.text(at + 15, y, words, colour="muted")
        at += width + 6
    return y


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _fill(colour: str) -> dict[str, Child]:
    return {"class_": f"f-{colour}", "fill": COLOURS[colour]}


def _stroke(colour: str, width: float) -> dict[str, Child]:
    return {"class_": f"s-{colour}", "stroke": COLOURS[colour], "stroke_width": width}


def _tip(words: str | None) -> Markup | None:
    return None if words is None else element("title", words)

"""Horizontal bars: bytes by role beside the floor, speeds by link, differences between two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rpcwire.output.plot import WIDE, Figure, legend, ticks
from rpcwire.output.summary import ROLE_WORDS
from rpcwire.output.units import bytes_text, ms_text, number_text

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis
    from rpcwire.compare import Comparison
    from rpcwire.predict.prediction import LinkResult

_MOST = 12
_ROW, _TALL_ROW = 24, 38
_BAR = 14
_FOOT = 34


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: parts (colour, amount) side by side, and what is written behind them."""

    label: str
    parts: tuple[tuple[str, float], ...]
    value: str

    @property
    def total(self) -> float:
        """Of all parts."""
        return sum(amount for _, amount in self.parts)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where things go: labels beside the bars, or above them where there is no room."""

    width: int
    rows: int
    top: int

    @property
    def tall(self) -> bool:
        return self.width < 500

    @property
    def row(self) -> int:
        return _TALL_ROW if self.tall else _ROW

    @property
    def left(self) -> int:
        return 8 if self.tall else 250

    @property
    def right(self) -> int:
        return self.width - (64 if self.tall else 84)

    @property
    def bottom(self) -> int:
        return self.top + self.rows * self.row

    def y(self, row: int) -> int:
        """Upper edge of a row's bar."""
        return self.top + row * self.row + (self.row - _BAR - 4)

    def label(self, figure: Figure, row: int, words: str) -> None:
        """Name a row."""
        if self.tall:
            figure.clipped(self.left, self.y(row) - 5, words, self.width - 2 * self.left)
        else:
            figure.clipped(self.left - 8, self.y(row) + 11, words, self.left - 12, "end")


def role_figure(analysis: Analysis, floor_bytes: float | None = None, width: int = WIDE) -> Figure:
    """Bytes per generated token by role, beside the textbook floor; of the run without tokens.

    Args:
        analysis: the accounts.
        floor_bytes: of a token; None takes the one of the analysis's model, if any.
        width: in pixels.
    """
    if floor_bytes is None and analysis.model is not None:
        floor_bytes = analysis.model.floor_bytes_per_token
    tokens = analysis.per_token.tokens
    bars = _role_bars(analysis, tokens)
    total = sum(bar.total for bar in bars)
    rest = bars[_MOST:]
    bars = bars[:_MOST]
    if rest:
        up, down = (sum(dict(bar.parts)[way] for bar in rest) for way in ("up", "down"))
        bars.append(_two(f"{len(rest)} smaller", up, down))
    title = "Bytes per generated token by role" if tokens else "Bytes by role"
    largest = ", ".join(f"{bar.label} {bar.value}" for bar in bars[:4])
    description = f"In all {bytes_text(total)}; the largest: {largest or 'none'}."
    if tokens and floor_bytes:
        description += f" The textbook floor is {bytes_text(floor_bytes)}."
        bars.insert(0, Bar("textbook floor", (("floor", floor_bytes),), bytes_text(floor_bytes)))
    return _bars(
        title, description, bars, width, (("up", "up"), ("down", "down")), bytes_text,
        marks=floor_bytes if tokens else None,
    )  # fmt: skip


def _role_bars(analysis: Analysis, tokens: int) -> list[Bar]:
    found = []
    for r in analysis.roles:
        up, down = (r.bytes_up_per_token or 0, r.bytes_down_per_token or 0) if tokens else (
            r.bytes_up, r.bytes_down,
        )  # fmt: skip
        if up or down:
            found.append(_two(ROLE_WORDS[r.role], up, down))
    return sorted(found, key=lambda bar: -bar.total)


def _two(label: str, up: float, down: float) -> Bar:
    return Bar(label, (("up", up), ("down", down)), bytes_text(up + down))


def link_figure(results: Sequence[LinkResult], width: int = WIDE) -> Figure:
    """Tokens a second on each link: from its low to its high case, a point at the usual one."""
    known = all(r.tokens_per_s is not None for r in results)
    speeds = [r.tokens_per_s or (r.ceiling,) * 3 for r in results]
    top = max((high for *_, high in speeds if high != float("inf")), default=1.0)
    title = "Tokens/s on other links" if known else "Tokens/s that other links would allow"
    said = ", ".join(
        f"{r.link.name} {number_text(mid)}" for r, (_, mid, _) in zip(results, speeds, strict=True)
    )
    plan = _Plan(width, len(results), 30)
    figure = Figure(title, f"Usual case: {said}.", width, plan.bottom + _FOOT)
    figure.text(8, 16, title, size=14)
    _axis(figure, plan, top, number_text)
    for row, (result, (low, mid, high)) in enumerate(zip(results, speeds, strict=True)):
        y = plan.y(row)
        plan.label(figure, row, result.link.title)
        x = [plan.left + min(v, top) / top * (plan.right - plan.left) for v in (low, mid, high)]
        lower, upper = min(x), max(x)
        figure.rect(lower, y + 3, max(2.0, upper - lower), 8, "prefill")
        figure.circle(x[1], y + 7, "up", f"{result.link.name}: {low:.3g}, {mid:.3g}, {high:.3g}")
        figure.text(plan.right + 8, y + 11, number_text(mid))
    return figure


def change_figure(comparison: Comparison, width: int = WIDE) -> Figure:
    """Milliseconds per token that the second run has more (right) or less (left), by cause."""
    words = {
        **ROLE_WORDS,
        "client": "the client itself",
        "workers": "workers computing",
        "network": "network, not told apart",
    }
    shown = [c for c in comparison.changes if abs(c.ms) > 1e-6][:_MOST]
    top = max((abs(c.ms) for c in shown), default=1.0)
    title = "Where the difference per token comes from, ms"
    said = ", ".join(f"{words[c.role]} {c.phase} {c.ms:+.3g} ms" for c in shown[:5])
    plan = _Plan(width, len(shown), 48)
    figure = Figure(title, f"{said or 'No difference'}.", width, plan.bottom + 12)
    figure.text(8, 16, title, size=14)
    legend(figure, 8, 36, (("up", "less in B"), ("down", "more in B")))
    middle = (plan.left + plan.right) / 2
    figure.line(middle, plan.top, middle, plan.bottom, "axis")
    for row, change in enumerate(shown):
        y, length = plan.y(row), abs(change.ms) / top * (plan.right - middle)
        name = words[change.role] + (f" ({change.phase})" if change.phase else "")
        plan.label(figure, row, name)
        more = change.ms > 0
        figure.rect(middle if more else middle - length, y, length, _BAR, "down" if more else "up")
        figure.text(plan.right + 8, y + 11, f"{change.ms:+.3g}")
    return figure


def token_figure(parts: Sequence[tuple[str, str, float]], width: int = WIDE) -> Figure:
    """The time of a token as one bar: (colour, name, ms) each."""
    total = sum(ms for *_, ms in parts) or 1.0
    said = ", ".join(f"{name} {ms_text(ms)} ({ms / total:.0%})" for _, name, ms in parts)
    figure = Figure("Time of a generated token", f"{said}.", width, 86)
    figure.text(8, 16, f"Time of a generated token: {ms_text(total)}", size=14)
    at = 8.0
    for colour, name, ms in parts:
        length = ms / total * (width - 16)
        figure.rect(at, 28, length, 20, colour, f"{name} {ms_text(ms)}")
        at += length
    named = [(colour, f"{name} {ms_text(ms)} ({ms / total:.0%})") for colour, name, ms in parts]
    last = legend(figure, 8, 66, named)
    figure.height = int(last) + 14
    return figure


def _bars(  # noqa: PLR0917 - what differs between the figures
    title: str,
    description: str,
    bars: Sequence[Bar],
    width: int,
    names: Sequence[tuple[str, str]],
    words: Callable[[float], str],
    marks: float | None,
) -> Figure:
    plan = _Plan(width, len(bars), 48)
    figure = Figure(title, description, width, plan.bottom + _FOOT)
    figure.text(8, 16, title, size=14)
    entries = [*names, *([("floor", "textbook floor")] if marks else [])]
    legend(figure, 8, 36, entries)
    top = max((bar.total for bar in bars), default=0.0) or 1.0
    _axis(figure, plan, top, words)
    scale = (plan.right - plan.left) / top
    for row, bar in enumerate(bars):
        plan.label(figure, row, bar.label)
        x, y = float(plan.left), plan.y(row)
        for colour, amount in bar.parts:
            if amount:
                length = max(1.0, amount * scale)
                figure.rect(x, y, length, _BAR, colour, f"{bar.label} {colour}: {words(amount)}")
                x += length
        figure.text(x + 5, y + 11, bar.value, colour="muted")
    if marks:
        x = plan.left + marks * scale
        figure.line(x, plan.top, x, plan.bottom, "floor", 1.5)
    return figure


def _axis(figure: Figure, plan: _Plan, top: float, words: Callable[[float], str]) -> None:
    for value in ticks(top, 4 if plan.tall else 8):
        x = plan.left + value / top * (plan.right - plan.left)
        figure.line(x, plan.top, x, plan.bottom)
        figure.text(x, plan.bottom + 15, words(value) if value else "0", "middle", colour="muted")

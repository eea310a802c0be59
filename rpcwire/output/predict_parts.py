"""Parts that the words of a prediction and of a replay have in common."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rpcwire.predict.prediction import LinkResult
from rpcwire.predict.scenario import Assumption

WIDTH = 80
LIMITS_WORDS = {
    "latency": "round trips",
    "bandwidth": "the link's bandwidth",
    "memory bandwidth": "memory bandwidth",
}
VERDICTS = {"enough": "is enough", "limits": "limits you", "not enough": "is not enough"}


def wrap(text: str, first: str = "") -> str:
    """Wrap a paragraph to the width."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it is not one."""
    many = {"boundary": "boundaries", "ubatch": "ubatches"}.get(noun, noun + "s")
    return f"{number} {noun if number == 1 else many}"


def figure(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def short(value: float) -> str:
    """Two digits, or all before the point."""
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def seconds(value: float | None) -> str:
    """Seconds, or a dash where they are not known."""
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def size_text(value: float) -> str:
    """A size in the unit that suits it."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("kB", 1000)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.0f} B"


def link_table(results: Sequence[LinkResult]) -> Iterator[str]:
    """One line a link, below two of headings."""
    known = bool(results) and results[0].tokens_per_s is not None
    speed = "tokens/s l-mid-h" if known else "tokens/s at most"
    yield f"{'link':<15}{'net ms':>8}  {speed:<18}{'prompt':>7}  {'load s':<12}limited by"
    yield f"{'':<15}{'/token':>8}  {'':<18}{'ms/tok':>7}  {'cold/cached':<12}".rstrip()
    for result in results:
        if result.tokens_per_s is not None:
            speeds = "-".join(figure(value) for value in result.tokens_per_s)
        else:
            speeds = figure(result.ceiling)
        load = f"{seconds(result.cold_s)}/{seconds(result.cached_s)}"
        line = (
            f"{result.link.name[:15]:<15}{figure(result.network_ms):>8}  {speeds:<18}"
            f"{short(result.prefill_ms):>7}  {load:<12}{result.limited_by}"
        )
        yield line[:WIDTH].rstrip()


def assumption_lines(assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Each assumption with its source."""
    yield "Assumptions:"
    for one in assumptions:
        yield textwrap.fill(
            f"{one.name}: {one.value} [{one.source}]",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )

"""Pieces of a page: sections, tables that can be sorted, figures for wide and narrow screens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpcwire.output.markup import Child, Markup, element, joined
from rpcwire.output.plot import NARROW, WIDE, Figure
from rpcwire.output.units import (
    bytes_text,
    count_text,
    ms_text,
    number_text,
    seconds_text,
    share_text,
)

#: What would end or begin markup inside of a script element, or a line in old JavaScript.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure in a table: as people read it, and what it is sorted by."""

    words: str
    value: float


#: What a table holds.
Entry = Child | Cell


def size(count: float | None) -> Cell:
    """Bytes."""
    return Cell(bytes_text(count), count or 0.0)


def count(value: int | None) -> Cell:
    """A count."""
    return Cell(count_text(value), value or 0)


def number(value: float | None) -> Cell:
    """Three digits."""
    return Cell(number_text(value), _known(value))


def ms(value: float | None) -> Cell:
    """Milliseconds."""
    return Cell(ms_text(value), _known(value))


def seconds(value: float | None) -> Cell:
    """A duration."""
    return Cell(seconds_text(value), _known(value))


def share(value: float | None) -> Cell:
    """A part of something."""
    words = share_text(abs(value or 0.0), 1.0)
    return Cell(f"-{words}" if value and value < 0 else words, _known(value))


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Entry]],
    *,
    name: str | None = None,
    left_off: int = 0,
) -> Markup:
    """A table whose columns can be sorted; the first column heads its row.

    Args:
        caption: says what it is.
        head: names of the columns.
        rows: Cells for figures; text and markup otherwise.
        name: id of its body.
        left_off: rows that are not shown.
    """
    body = [_row(row) for row in rows]
    figures = [False] * len(head)
    for one in body:
        figures = [old or new for old, new in zip(figures, one[1], strict=True)]
    titles = [
        element("th", title, scope="col", class_="num" if is_figure else None)
        for title, is_figure in zip(head, figures, strict=True)
    ]
    foot = None
    if left_off:
        foot = element("p", f"and {left_off:,} more that are not shown", class_="more")
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *titles)),
        element("tbody", *(markup for markup, _ in body), id=name),
        class_="sortable",
    )
    return joined(element("div", whole, class_="scroll", tabindex=0, role="group",
                          aria_label=caption), foot)  # fmt: skip


def _row(row: Sequence[Entry]) -> tuple[Markup, list[bool]]:
    cells, figures = [], []
    for place, cell in enumerate(row):
        figures.append(isinstance(cell, Cell))
        if isinstance(cell, Cell):
            cells.append(element("td", cell.words, class_="num", data_v=f"{cell.value:.9g}"))
        elif place == 0:
            cells.append(element("th", cell, scope="row"))
        else:
            cells.append(element("td", cell))
    return element("tr", *cells), figures


def figure(name: str, draw: Callable[[int], Figure], caption: str | None = None) -> Markup:
    """A figure, drawn for a wide screen and again for a narrow one."""
    parts = [
        element("div", draw(width).svg(f"{name}-{kind}"), class_=kind)
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    ]
    said = None if caption is None else element("figcaption", caption)
    return element("figure", *parts, said)


def role(name: str, words: Mapping[str, str]) -> Markup:
    """A role, and what it is where its name does not say so."""
    said = words.get(name, "")
    code = element("code", name)
    return code if said.replace(" ", "_").casefold() in ("", name) else joined(code, f" {said}")


def section(name: str, title: str, *children: Child, level: int = 2) -> Markup:
    """A part of the page with a heading, found by its id; on the top level a landmark."""
    heading = element(f"h{level}", title, id=f"{name}-h")
    if level > 2:
        return element("div", heading, *children, id=name)
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-h")


def paragraphs(lines: Iterable[str]) -> Markup:
    """Some paragraphs."""
    return joined(*(element("p", line) for line in lines))


def data(name: str, value: Any) -> Markup:
    """A value for the page's script, in a block that no browser runs."""
    written = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return element("script", Markup(written.translate(_UNSAFE)), id=name, type="application/json")


def _known(value: float | None) -> float:
    return -1.0 if value is None else value

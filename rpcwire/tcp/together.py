"""Pieces that one packet made deliverable belong in one span, however a capture came in batches."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.span import Span

_COLUMNS = tuple(f.name for f in fields(Span) if f.name not in ("start", "end", "data"))


def together(spans: list[Span]) -> list[Span]:
    """Join spans where the last piece of one and the first of the next were known together."""
    done: list[Span] = []
    group: list[Span] = []
    for span in spans:
        if group and _known(group[-1])[-1] != _known(span)[0]:
            done += _join(group)
            group = []
        group.append(span)
    return done + _join(group)


def compact(span: Span) -> Span:
    """The same over a copy of its own bytes."""
    places = zip(span.source.tolist(), span.have.tolist(), strict=True)
    data = np.concatenate([span.data[at : at + size] for at, size in places])
    return replace(span, data=data, source=np.cumsum(span.have) - span.have)


def _join(group: list[Span]) -> list[Span]:
    if len(group) < 2:
        return group
    if all(span.data is group[0].data for span in group):
        return [_one(group)]
    first, last = group[0], group[-1]
    # Only what belongs together is copied.
    begin = int(_known(first).searchsorted(_known(first)[-1]))
    stop = int(_known(last).searchsorted(_known(last)[0], "right"))
    middle = [compact(s) for s in (_cut(first, begin, None), *group[1:-1], _cut(last, 0, stop))]
    ahead = 0
    for span in middle:
        span.source += ahead
        ahead += len(span.data)
    joined = replace(_one(middle), data=np.concatenate([span.data for span in middle]))
    before = [_cut(first, 0, begin)] if begin else []
    after = [_cut(last, stop, None)] if stop < len(last.have) else []
    return [*before, joined, *after]


def _one(group: list[Span]) -> Span:
    columns = {name: np.concatenate([getattr(span, name) for span in group]) for name in _COLUMNS}
    return Span(start=group[0].start, end=group[-1].end, data=group[0].data, **columns)


def _cut(span: Span, begin: int, stop: int | None) -> Span:
    columns = {name: getattr(span, name)[begin:stop] for name in _COLUMNS}
    start = int(span.piece_end[begin - 1]) if begin else span.start
    return Span(start=start, end=int(columns["piece_end"][-1]), data=span.data, **columns)


def _known(span: Span) -> NDArray[np.int64]:
    assert span.known is not None
    return span.known

"""Pieces that became deliverable in a run, on their way to become one span."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.arrivals import Arrivals
from rpcwire.tcp.span import Span

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Parts:
    """Stretches of arrivals and of what was lost, in stream order.

    Args:
        new: the arrivals, and the proofs that stamp what was lost.
        begin: offset where the first part begins.
    """

    def __init__(self, new: Arrivals, begin: int) -> None:
        self.begin = begin
        self._new = new
        # Number of the first piece, how many, `known`, and for lost ones the end of the last.
        # Arrivals are numbered first, then proofs. -1 stands for known as each arrived.
        self._parts: list[tuple[int, int, int, int]] = []

    def arrived(self, first: int, stop: int) -> None:
        """Arrivals `first` up to `stop` were deliverable as they came."""
        self._parts.append((first, stop - first, -1, -1))

    def released(self, first: int, stop: int, known: int) -> None:
        """Arrivals `first` up to `stop` became deliverable together."""
        self._parts.append((first, stop - first, known, -1))

    def lost(self, proof: Ints, count: Ints, known: Ints, upto: Ints) -> None:
        """Holes, one after another.

        Args:
            proof: int64[k], the first of the proofs that stamp each.
            count: int64[k], how many pieces each is in: one a proof.
            known: int64[k], when it was declared lost.
            upto: int64[k], the offset where it ends.
        """
        columns = (proof + len(self._new.index), count, known, upto)
        self._parts.extend(zip(*(column.tolist() for column in columns), strict=True))

    def span(self) -> Span | None:
        """All so far as one span, None when there is nothing; then begin anew."""
        if not self._parts:
            return None
        new, rows, table = self._new, self._new.rows, self._new.proofs.table
        first, count, known, upto = np.array(self._parts, np.int64).T
        self._parts = []
        last = np.cumsum(count)
        which = np.arange(last[-1]) + np.repeat(first - last + count, count)
        lost = which >= len(new.index)
        came, proof = which[~lost], which[lost] - len(new.index)
        index = new.index[came] + new.first
        since = np.repeat(known, count)
        since[~lost] = np.where(since[~lost] < 0, rows.order[index], since[~lost])
        ends = _mixed(lost, new.ends[came], table[proof, 0])
        ends[last[upto >= 0] - 1] = upto[upto >= 0]
        start, self.begin = self.begin, int(ends[-1])
        return Span(
            start, self.begin, ends, _mixed(lost, rows.source[index], 0),
            _mixed(lost, rows.captured[index], 0), lost,
            _mixed(lost, rows.time_ns[index], table[proof, 2]),
            _mixed(lost, rows.number[index], table[proof, 3]),
            _mixed(lost, rows.file[index], table[proof, 4]).astype(np.int16), rows.data, since,
        )  # fmt: skip


def _mixed(lost: Mask, there: Ints, gone: Ints | int) -> Ints:
    """One column from that of what was captured and that of what was not."""
    column = np.empty(len(lost), np.int64)
    column[~lost] = there
    column[lost] = gone
    return column

"""What became deliverable of one direction, until it is handed out as spans."""

from __future__ import annotations

import numpy as np

from rpcwire.tcp.packet import Bytes
from rpcwire.tcp.span import Span
from rpcwire.tcp.together import together

# One piece: end, source, have, lost, time_ns, number, file, known, data.
Row = tuple[int, int, int, bool, int, int, int, int, Bytes | None]


class Outlet:
    """Pieces and spans in stream order.

    Attributes:
        known: the ordinal at which the last of them became deliverable.
    """

    __slots__ = ("_out", "_start", "known")

    def __init__(self) -> None:
        self._out: list[Row | Span] = []
        self._start = 0
        self.known = 0

    def at(self, known: int) -> int:
        """Raise `known`, which never falls."""
        self.known = max(self.known, known)
        return self.known

    def add(self, item: Row | Span) -> None:
        """Take what continues the stream."""
        self._out.append(item)

    def drop(self, upto: int) -> None:
        """Forget what is there, which reaches to offset `upto`: nobody wants it."""
        self._out = []
        self._start = upto

    def flush(self, data: Bytes) -> list[Span]:
        """Hand it out; `data` is the buffer of the pieces that have none of their own."""
        if not self._out:
            return []
        spans: list[Span] = []
        rows: list[Row] = []
        held = False
        for item in self._out:
            if isinstance(item, Span):
                self._pack(rows, data, spans)
                spans.append(item)
                self._start = item.end
                continue
            own = item[8] is not None
            if rows and not item[3] and own != held:
                self._pack(rows, data, spans)
            if not rows or not item[3]:
                held = own
            rows.append(item)
        self._pack(rows, data, spans)
        self._out = []
        return together(spans) if len(spans) > 1 else spans

    def _pack(self, rows: list[Row], data: Bytes, spans: list[Span]) -> None:
        """Make a span of pieces that share a buffer, and begin anew."""
        if not rows:
            return
        ends, source, have, lost, time_ns, number, file, known, copies = zip(*rows, strict=True)
        start, self._start = self._start, ends[-1]
        sources = np.array(source, np.int64)
        buffers = [c for c in copies if c is not None]
        if buffers:
            data = np.concatenate(buffers)
            ahead = 0
            for k, copy in enumerate(copies):
                if copy is not None:
                    sources[k] += ahead
                    ahead += len(copy)
        spans.append(Span(
            start, ends[-1], np.array(ends, np.int64), sources, np.array(have, np.int64),
            np.array(lost, np.bool_), np.array(time_ns, np.int64), np.array(number, np.int64),
            np.array(file, np.int16), data, np.array(known, np.int64),
        ))  # fmt: skip
        rows.clear()

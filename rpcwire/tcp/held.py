"""Payload that arrived behind a hole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import heappop, heappush

from rpcwire.tcp.outlet import Row
from rpcwire.tcp.packet import Bytes
from rpcwire.tcp.span import Span
from rpcwire.tcp.together import compact


class Held:
    """Pieces behind holes: single ones, and runs of them as spans that lack `known`.

    Attributes:
        starts, ends: the stretches of the stream that they cover, none touching another.
        bytes, pieces: payload bytes, and in how many pieces.
    """

    __slots__ = ("_borrowed", "_heap", "bytes", "ends", "pieces", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.bytes = self.pieces = 0
        self._heap: list[tuple[int, Row | Span]] = []
        self._borrowed = False

    def cover(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are not covered yet; they are covered from now on."""
        starts, ends = self.starts, self.ends
        i, j = bisect_left(ends, start), bisect_right(starts, end)
        gaps, pos = [], start
        for k in range(i, j):
            if starts[k] > pos:
                gaps.append((pos, starts[k]))
            pos = max(pos, ends[k])
        if pos < end:
            gaps.append((pos, end))
        if i < j:
            start, end = min(start, starts[i]), max(end, ends[j - 1])
        starts[i:j] = [start]
        ends[i:j] = [end]
        return gaps

    def add(self, start: int, row: Row) -> None:
        """Keep the piece of a gap."""
        heappush(self._heap, (start, row))
        self._borrowed = True
        self.bytes += row[2]
        self.pieces += 1

    def append(self, span: Span) -> None:
        """Keep a run of pieces that begins where everything held ends, or later."""
        self.cover(span.start, span.end)
        heappush(self._heap, (span.start, span))
        self._borrowed = True
        self.bytes += int(span.have.sum())
        self.pieces += len(span.have)

    def release(self) -> Iterator[Row | Span]:
        """Take out the first stretch."""
        end = self.ends[0]
        while self._heap and self._heap[0][0] < end:
            _, item = heappop(self._heap)
            if isinstance(item, Span):
                self.bytes -= int(item.have.sum())
                self.pieces -= len(item.have)
            else:
                self.bytes -= item[2]
                self.pieces -= 1
            yield item
        del self.starts[0], self.ends[0]

    def own(self, data: Bytes) -> None:
        """Copy payload out of the batch's buffer, which is about to go."""
        if not self._borrowed:
            return
        self._borrowed = False
        for i, (start, item) in enumerate(self._heap):
            if isinstance(item, Span):
                if item.data is data:
                    self._heap[i] = (start, compact(item))
            elif item[8] is None:
                copy = data[item[1] : item[1] + item[2]].copy()
                self._heap[i] = (start, (item[0], 0, *item[2:8], copy))

"""Random access to the captured bytes of the spans at hand, in stream offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from rpcwire.tcp.span import Span

#: Order of packets in spans that do not tell it (`known`): file in the upper bits, then number.
_FILE_SHIFT = 44


class Packet(NamedTuple):
    """The packet that brought some byte; see LoadedSpan."""

    key: int
    number: int
    file: int
    time_ns: int
    completed: int


class LoadedSpan:
    """A span with its arrays as lists, which is what reading at single offsets wants.

    Attributes:
        start, end: stream offsets.
        ends: where each piece ends.
        source, have: as in Span.
        key: for each piece, the place in the order of packets at which all bytes up to its end
            were known; never falls, and comparable between directions.
        number, file, time_ns: of each piece's packet.
        completed: number of the packet at which all bytes up to the piece's end were known.
        whole: True when every byte is present.
    """

    __slots__ = (
        "_cut",
        "_missing",
        "_owned",
        "completed",
        "data",
        "end",
        "ends",
        "file",
        "have",
        "key",
        "lost",
        "number",
        "source",
        "start",
        "time_ns",
        "whole",
    )

    def __init__(self, span: Span, floor: int) -> None:
        self.start = span.start
        self.end = span.end
        self.ends: list[int] = span.piece_end.tolist()
        self.source: list[int] = span.source.tolist()
        self.have: list[int] = span.have.tolist()
        self.lost: list[bool] = span.lost.tolist()
        self.time_ns: list[int] = span.time_ns.tolist()
        key = span.known
        if key is None:
            key = span.number + (span.file.astype(np.int64) << _FILE_SHIFT)
        key = np.maximum.accumulate(np.maximum(key, floor))
        self.key: list[int] = key.tolist()
        self.number: list[int] = span.number.tolist()
        self.file: list[int] = span.file.tolist()
        self.completed = self.number
        same = key[1:] == key[:-1]
        if same.any():  # a packet that filled a hole completed the pieces behind it, too
            opener = np.arange(len(key))
            opener[1:][same] = 0
            self.completed = span.number[np.maximum.accumulate(opener)].tolist()
        self.data: memoryview = span.data.data
        self.whole = sum(self.have) == span.end - span.start
        self._owned = False
        self._missing: list[int] = []
        self._cut: list[int] = []

    def piece(self, offset: int, low: int = 0) -> int:
        """Index of the piece that holds the byte at `offset`."""
        return bisect_right(self.ends, offset, low)

    def piece_start(self, k: int) -> int:
        """Stream offset of piece k's first byte."""
        return self.ends[k - 1] if k else self.start

    def packet(self, k: int) -> Packet:
        """The packet of piece k."""
        return Packet(self.key[k], self.number[k], self.file[k], self.time_ns[k], self.completed[k])

    def own(self) -> None:
        """Copy the bytes out of the batch's buffer, so that it need not stay for these few."""
        if self._owned:
            return
        self._owned = True
        pieces = zip(self.source, self.have, strict=True)
        self.data = memoryview(b"".join([self.data[at : at + n] for at, n in pieces]))
        self.source = [0, *accumulate(self.have)][:-1]

    def window(self, offset: int, limit: int, k: int) -> bytes:
        """Captured bytes from `offset` in piece k, up to a gap, the end or about `limit`."""
        start = self.ends[k - 1] if k else self.start
        skip = offset - start
        here = self.have[k] - skip
        if here <= 0:
            return b""
        at = self.source[k] + skip
        data = self.data
        if here >= limit:
            return bytes(data[at : at + limit])
        if here < self.ends[k] - offset or k + 1 == len(self.ends):
            return bytes(data[at : at + here])
        parts = [data[at : at + here]]
        ends, source, have = self.ends, self.source, self.have
        total = here
        previous = ends[k]
        for j in range(k + 1, len(ends)):
            n = have[j]
            at = source[j]
            parts.append(data[at : at + n])
            total += n
            end = ends[j]
            if total >= limit or n < end - previous:
                break
            previous = end
        return b"".join(parts)

    def absent(self, offset: int) -> tuple[int, int]:
        """(missing, truncated) bytes of the span before `offset`."""
        if self.whole:
            return 0, 0
        if not self._missing:
            missing = cut = 0
            previous = self.start
            for end, have, lost in zip(self.ends, self.have, self.lost, strict=True):
                self._missing.append(missing)
                self._cut.append(cut)
                if lost:
                    missing += end - previous - have
                else:
                    cut += end - previous - have
                previous = end
            self._missing.append(missing)
            self._cut.append(cut)
        if offset >= self.end:
            return self._missing[-1], self._cut[-1]
        k = self.piece(offset)
        part = max(0, offset - self.piece_start(k) - self.have[k])
        lost_here = self.lost[k]
        return (
            self._missing[k] + (part if lost_here else 0),
            self._cut[k] + (0 if lost_here else part),
        )


class Tape:
    """The spans of one direction that are still needed, oldest first."""

    def __init__(self) -> None:
        self.spans: deque[LoadedSpan] = deque()
        self.end = 0
        self.key = 0
        self._before = (0, 0)  # absent bytes in the spans that were dropped
        self.latest = Packet(0, 0, 0, 0, 0)
        self.started = False
        self.captured = False  # whether any byte ever was
        self.start = 0

    def add(self, span: Span) -> LoadedSpan | None:
        """Take in the next span; None when it is empty."""
        if span.end <= span.start or not len(span.piece_end):
            return None
        loaded = LoadedSpan(span, self.key)
        if not self.started:
            self.started = True
            self.start = self.end = span.start
        self.spans.append(loaded)
        self.end = loaded.end
        self.captured = self.captured or any(loaded.have)
        self.key = loaded.key[-1]
        self.latest = loaded.packet(-1)
        return loaded

    def drop(self, offset: int) -> None:
        """Forget the spans that end at or before `offset`."""
        while self.spans and self.spans[0].end <= offset:
            gone = self.spans.popleft()
            missing, cut = gone.absent(gone.end)
            self._before = (self._before[0] + missing, self._before[1] + cut)

    def absent(self, offset: int) -> tuple[int, int]:
        """(missing, truncated) bytes of the whole stream before `offset`."""
        missing, cut = self._before
        for span in self.spans:
            if span.start >= offset:
                break
            more = span.absent(offset)
            missing += more[0]
            cut += more[1]
        return missing, cut

    def locate(self, offset: int) -> tuple[LoadedSpan, int] | None:
        """The span and piece that hold the byte at `offset`, if it is at hand."""
        for span in self.spans:
            if offset < span.end:
                return (span, span.piece(offset)) if offset >= span.start else None
        return None

    def read(self, offset: int, size: int) -> tuple[bytes, bool]:
        """Captured bytes from `offset`, and whether more may still come.

        Returns:
            At most `size` bytes, fewer when a gap or the end of what is known comes first;
            the flag is True only in the latter case.
        """
        found = self.locate(offset)
        if found is None:
            return b"", offset >= self.end
        span, k = found
        got = span.window(offset, size, k)[:size]
        while len(got) < size and offset + len(got) == span.end:
            found = self.locate(offset + len(got))
            if found is None:
                return got, True
            span, k = found
            more = span.window(offset + len(got), size - len(got), k)[: size - len(got)]
            if not more:
                break
            got += more
        return got, False

    def own(self) -> None:
        """Copy what stays at hand out of the batches' buffers."""
        for span in self.spans:
            span.own()

    def packet(self, offset: int) -> Packet:
        """The packet with the byte at `offset`; the last one if that is not at hand."""
        found = self.locate(offset)
        return found[0].packet(found[1]) if found else self.latest

    def key_at(self, offset: int) -> int:
        """Key of the packet by which the byte at `offset` was known."""
        found = self.locate(offset)
        if found is None:
            return self.key
        span, k = found
        return span.key[k]

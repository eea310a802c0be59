"""One direction of a connection as the slimming writer sees it: what is kept, what is dropped."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rpcwire.record.policy import MOST_PLAIN, kept_bytes

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Entries that are remembered behind the last one; only late packets ask for them.
_REMEMBERED = 256
_OPEN = -1
FOREVER = 1 << 62


class Stream:
    """Decisions about the bytes of one direction, in stream offsets.

    Args:
        plain: see policy.kept_bytes.

    Attributes:
        resolved: everything below this offset is decided.
        bulk: [from, to) of tensor data whose frame is not complete yet, dropped at once.
    """

    def __init__(self, plain: int = MOST_PLAIN) -> None:
        self._plain = plain
        self.resolved = 0
        self.bulk = (0, 0)
        self._starts: list[int] = []
        self._keeps: list[int] = []
        self._ends: list[int] = []
        self._frames: list[Frame | None] = []
        self._patches: list[dict[int, bytes]] = []
        self._open = 0  #: first entry that may be undecided

    def add(self, frame: Frame, patches: dict[int, bytes]) -> None:
        """Take the next frame; `patches`: stream offset -> bytes to write instead."""
        tail = self._ends[-1] if self._ends else 0
        if frame.offset > tail:
            self._append(tail, tail, frame.offset, None, {})
        start = max(frame.offset, tail)
        end = frame.offset + frame.bytes
        if end <= start:
            return
        kept = kept_bytes(frame, self._plain)
        if kept is None:
            self._append(start, _OPEN, end, frame, patches)
        else:
            self._append(start, min(end, frame.offset + kept), end, None, patches)

    def _append(
        self, start: int, keep: int, end: int, frame: Frame | None, patches: dict[int, bytes]
    ) -> None:
        self._starts.append(start)
        self._keeps.append(keep)
        self._ends.append(end)
        self._frames.append(frame)
        self._patches.append(patches)

    def settle(self) -> None:
        """Decide what has become known since."""
        n = len(self._starts)
        first = n
        for k in range(self._open, n):
            frame = self._frames[k]
            if frame is None:
                continue
            kept = kept_bytes(frame, self._plain)
            if kept is None:
                first = min(first, k)
            else:
                self._keeps[k] = min(self._ends[k], frame.offset + kept)
                self._frames[k] = None
        self._open = first
        if n:
            self.resolved = max(self.resolved, self._starts[first] if first < n else self._ends[-1])

    def forget(self) -> None:
        """No packet waits any more: forget old decisions, but for late packets."""
        surplus = self._open - _REMEMBERED
        if surplus > _REMEMBERED:
            for column in (self._starts, self._keeps, self._ends, self._frames, self._patches):
                del column[:surplus]
            self._open -= surplus

    def drop_all(self) -> None:
        """Nothing more of this direction is kept."""
        self.resolved = FOREVER
        self.bulk = (0, FOREVER)

    def kept(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are kept; what is undecided is dropped."""
        parts: list[tuple[int, int]] = []
        k = max(bisect_right(self._starts, start) - 1, 0)
        while k < len(self._starts) and self._starts[k] < end:
            a, b = max(start, self._starts[k]), min(end, self._keeps[k])
            if b > a:
                if parts and parts[-1][1] == a:
                    parts[-1] = (parts[-1][0], b)
                else:
                    parts.append((a, b))
            k += 1
        return parts

    def patch(self, start: int, data: bytes) -> bytes:
        """The kept bytes that begin at `start`, with what has to be written instead."""
        end = start + len(data)
        k = max(bisect_right(self._starts, start) - 1, 0)
        out: bytearray | None = None
        while k < len(self._starts) and self._starts[k] < end:
            for at, text in self._patches[k].items():
                a, b = max(at, start), min(at + len(text), end)
                if b > a:
                    out = bytearray(data) if out is None else out
                    out[a - start : b - start] = text[a - at : b - at]
            k += 1
        return data if out is None else bytes(out)

    def dropped(self, start: Index, end: Index) -> Mask:
        """Whether pieces [start, end) are dropped whole, as far as is decided.

        Args:
            start: int64[n], stream offsets of the first bytes.
            end: int64[n], stream offsets behind the last ones.
        """
        out: Mask = (start >= self.bulk[0]) & (end <= self.bulk[1])
        if self._starts:
            k = np.maximum(np.searchsorted(np.asarray(self._starts), start, "right") - 1, 0)
            keep = np.asarray(self._keeps)[k]
            out |= (keep >= 0) & (start >= keep) & (end <= np.asarray(self._ends)[k])
        return out

"""The buffer that incoming bytes are read into and packets are cut from, without copies."""

from __future__ import annotations

import numpy as np

from rpcwire.capture.packets import SLACK, Bytes

# Room of a fresh arena: small reads share one, large reads get one each.
ARENA_BYTES = 1 << 20


class Arena:
    """Append-only memory; what was handed out stays valid when the arena moves on.

    Bytes are appended behind `end` and consumed from `start`. When the room is used up a new
    block is allocated and only the unconsumed bytes are copied.

    Attributes:
        data: uint8[*], the current block.
        start, end: unconsumed bytes are data[start:end].
        consumed: stream offset of data[0].
    """

    def __init__(self) -> None:
        self.data: Bytes = np.zeros(SLACK, np.uint8)
        self.start = 0
        self.end = 0
        self.consumed = 0

    def space(self, size: int, least: int | None = None) -> memoryview:
        """Writable room behind the end.

        Args:
            size: bytes wanted.
            least: bytes that will do where so many are left; a new block is begun otherwise.
        """
        if self.end + (size if least is None else least) + SLACK > len(self.data):
            self._move(size)
        return self.data.data[self.end : min(self.end + size, len(self.data) - SLACK)]

    def advance(self, size: int) -> None:
        """Declare that `size` bytes of the room were filled."""
        self.end += size

    def append(self, chunk: bytes | memoryview) -> None:
        """Copy a chunk behind the end."""
        self.space(len(chunk))[:] = chunk
        self.advance(len(chunk))

    def position(self, index: int) -> int:
        """Stream offset of data[index]."""
        return self.consumed + index

    def _move(self, size: int) -> None:
        kept = self.end - self.start
        block = np.empty(max(kept + size, ARENA_BYTES) + SLACK, np.uint8)
        block[:kept] = self.data[self.start : self.end]
        self.consumed += self.start
        self.data, self.start, self.end = block, 0, kept

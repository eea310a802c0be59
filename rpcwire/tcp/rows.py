"""Columns of the segments of one flow, gathered from a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.packet import Packet


@dataclass(slots=True)
class Rows:
    """Segments of one flow in file order; columns as in SegmentBatch.

    Attributes:
        end: int8[n], 0 where the flow's first endpoint sent the segment, else 1.
        order: int64[n], ordinal among all segments fed.
    """

    data: NDArray[np.uint8]
    end: NDArray[np.int8]
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    window: NDArray[np.uint16]
    source: NDArray[np.int64]
    captured: NDArray[np.int64]
    length: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    number: NDArray[np.int64]
    file: NDArray[np.int16]
    order: NDArray[np.int64]

    @classmethod
    def gather(
        cls, batch: SegmentBatch, index: NDArray[np.int64], end: NDArray[np.int8], fed: int
    ) -> Rows:
        """Take the segments at int64[n] `index`; `fed` were fed in earlier batches."""
        columns = (
            batch.seq, batch.ack, batch.flags, batch.window, batch.payload, batch.captured,
            batch.length, batch.time_ns, batch.number, batch.file,
        )  # fmt: skip
        if len(index) < len(batch):
            columns = tuple(column[index] for column in columns)  # type: ignore[assignment]
        return cls(batch.data, end, *columns, index + fed)

    def __len__(self) -> int:
        return len(self.seq)

    def packets(self, i: int, j: int) -> Iterator[Packet]:
        """Segments i to j as objects, for the slow path."""
        columns = (
            self.end, self.seq, self.ack, self.flags, self.window, self.source, self.captured,
            self.length, self.time_ns, self.number, self.file, self.order,
        )  # fmt: skip
        return map(Packet, *(column[i:j].tolist() for column in columns))

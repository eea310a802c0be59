"""What the capture layer hands on: TCP segments as arrays, never as objects."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Chosen = slice | NDArray[np.bool_] | NDArray[np.int64]

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10


@dataclass(slots=True)
class SegmentBatch:
    """Consecutive TCP segments of a capture, one array element a segment, in file order.

    A batch covers all packets of the file with numbers in (previous batch's last_number,
    last_number]; packets that are not TCP are absent but counted by the reader.

    Attributes:
        data: uint8[*], the bytes that `payload` indexes (one read of the file, or several joined).
        number: int64[n], packet number within its file, from 1, as Wireshark counts.
        file: int16[n], index of the file among the inputs.
        time_ns: int64[n], capture time in ns since the Unix epoch.
        src, dst: uint64[n, 2], addresses as 128-bit big-endian halves; IPv4 as ::ffff:a.b.c.d.
        sport, dport: uint16[n].
        seq, ack: uint32[n].
        flags: uint8[n], TCP flags as in the header (FIN, SYN, RST, PSH, ACK above).
        window: uint16[n], as in the header, unscaled.
        payload: int64[n], index in `data` of the first payload byte.
        captured: int64[n], payload bytes present in the file.
        length: int64[n], payload bytes on the wire (from the IP length; captured <= length).
        last_number: number of the last packet covered, of any kind.
    """

    data: NDArray[np.uint8]
    number: NDArray[np.int64]
    file: NDArray[np.int16]
    time_ns: NDArray[np.int64]
    src: NDArray[np.uint64]
    dst: NDArray[np.uint64]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    window: NDArray[np.uint16]
    payload: NDArray[np.int64]
    captured: NDArray[np.int64]
    length: NDArray[np.int64]
    last_number: int

    def __len__(self) -> int:
        """Segments in the batch."""
        return len(self.number)

    def take(self, chosen: Chosen) -> SegmentBatch:
        """The chosen segments, over the same `data`.

        Args:
            chosen: slice, bool[n] or int64[k].
        """
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return SegmentBatch(data=self.data, last_number=self.last_number, **columns)


# Names of the fields that hold one element a segment.
COLUMNS = tuple(f.name for f in fields(SegmentBatch) if f.name not in ("data", "last_number"))

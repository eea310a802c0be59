"""What the container readers hand on: whole packets as arrays, before any dissection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]
Index = NDArray[np.int64]

# Bytes that may be read (never used) behind the last packet of a buffer, see `rows`.
SLACK = 64


@dataclass(slots=True)
class PacketBatch:
    """Consecutive packets of one file.

    Attributes:
        data: uint8[*], buffer that `offset` indexes; SLACK readable bytes follow the last packet.
        number: packet number in the file of the first packet, from 1; the others follow on.
        time_ns: int64[n], ns since the Unix epoch.
        offset: int64[n], index in `data` of the packet's first byte.
        captured: int64[n], bytes present.
        length: int64[n], bytes on the wire; captured <= length.
        link: int32[n], LINKTYPE of each packet, -1 where its interface is not described.
    """

    data: Bytes
    number: int
    time_ns: Index
    offset: Index
    captured: Index
    length: Index
    link: NDArray[np.int32]

    def __len__(self) -> int:
        """Packets in the batch."""
        return len(self.offset)


def rows(data: Bytes, offset: Index, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Copy one record of `dtype` from each (unaligned) offset.

    A view of raw items with a stride of one byte makes this one memcpy a row, several times
    faster than one gather a field.

    Args:
        data: uint8[*].
        offset: int64[n]; every offset + dtype.itemsize must be within data.
        dtype: packed structured type.
    """
    size = dtype.itemsize
    void: DTypeLike = f"V{size}"
    every: NDArray[np.void] = np.ndarray((len(data) - size + 1,), void, data, 0, (1,))
    return every[offset].view(dtype)

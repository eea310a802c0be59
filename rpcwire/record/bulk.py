"""Runs of packets that carry nothing but dropped tensor data, joined to few records.

A joined record stands where its last packet stood and has its time, so that the last byte of a
transfer keeps its time; it ends where the packet ended that a kept acknowledgement refers to, so
that round-trip times measured by acknowledgements stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Bytes of the stream and time that a record joins at most: fine enough for any plot, and small
#: enough to be a credible step of sequence numbers.
JOIN_BITS = 23
JOIN_NS = 20_000_000
_MASK = 0xFFFFFFFF

Index = NDArray[np.int64]


@dataclass(slots=True)
class Joined:
    """Consecutive bytes of one direction.

    Attributes:
        start: sequence number of the first byte. size: bytes.
        bucket: what must agree for more to be joined.
        last: packet that ends it, opaque to this module.
    """

    start: int
    size: int
    bucket: tuple[int, int]
    last: int

    @property
    def end(self) -> int:
        """Sequence number behind the last byte."""
        return (self.start + self.size) & _MASK


def join(index: Index, seq: Index, size: Index, time_ns: Index, cuts: Index) -> list[Joined]:
    """Join packets of one direction, in order of capture.

    Args:
        index: int64[n], numbers of the packets.
        seq: int64[n], sequence number of each one's first byte.
        size: int64[n], payload bytes.
        time_ns: int64[n].
        cuts: int64[m], sequence numbers (ends of packets) where a record has to end.

    Returns:
        Records in order.
    """
    ends = (seq + size) & _MASK
    slot = time_ns // JOIN_NS
    part = seq >> JOIN_BITS
    new = np.ones(len(index), np.bool_)
    new[1:] = (
        (seq[1:] != ends[:-1])
        | (slot[1:] != slot[:-1])
        | (part[1:] != part[:-1])
        | np.isin(ends[:-1], cuts)
    )
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(index)) - 1
    total = np.add.reduceat(size, first)
    return [
        Joined(s, n, (t, p), i)
        for s, n, t, p, i in zip(
            seq[first].tolist(),
            total.tolist(),
            slot[first].tolist(),
            part[first].tolist(),
            index[last].tolist(),
            strict=True,
        )
    ]


def ack_ends(acks: Index, seq: Index, size: Index) -> Index:
    """The packet ends that acknowledgements reach: for each the last one not above it.

    Args:
        acks: int64[m], acknowledgement numbers.
        seq: int64[n], sequence numbers of packets in order.
        size: int64[n], their payload bytes.
    """
    origin = int(seq[0])
    ends = np.sort((seq + size - origin) & _MASK)
    reach = (acks - origin) & _MASK
    k = np.searchsorted(ends, reach, "right") - 1
    found: Index = (ends[k[(k >= 0) & (reach < 1 << 31)]] + origin) & _MASK
    return found

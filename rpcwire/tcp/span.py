"""What the TCP layer hands on: stretches of a byte stream in order, holes named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Span:
    """Stream bytes [start, end) of one direction, in order, made of pieces that tile it.

    A piece is what one segment added, or a hole. Offsets are 64-bit and count payload bytes:
    0 is the first byte after SYN, or the first byte seen when the start was not captured.

    Attributes:
        start, end: stream offsets in bytes.
        piece_end: int64[k], stream offset where each piece ends; strictly rising, last == end.
        source: int64[k], index in `data` of each piece's first byte.
        have: int64[k], bytes of the piece that are present, from its front; the rest is unknown.
        lost: bool[k], True where the piece was never captured (have == 0): "missing".
            have < length with lost False means that the snap length cut it: "truncated".
        time_ns, number, file: of the packet that brought the piece (for a hole: of the packet
            whose arrival proved it).
        data: uint8[*], see SegmentBatch.data.
        known: int64[k], when the piece became deliverable: the ordinal (from 0, over all segments
            fed) of the packet whose arrival completed the stream up to it; never falls within
            a stream, and comparable between the two sides and between connections.
            None in spans that were not made by an `Assembler`.
    """

    start: int
    end: int
    piece_end: NDArray[np.int64]
    source: NDArray[np.int64]
    have: NDArray[np.int64]
    lost: NDArray[np.bool_]
    time_ns: NDArray[np.int64]
    number: NDArray[np.int64]
    file: NDArray[np.int16]
    data: NDArray[np.uint8]
    known: NDArray[np.int64] | None = None

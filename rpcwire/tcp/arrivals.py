"""What a run of segments brings to one direction, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.rows import Rows

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Proofs:
    """Proofs in order; see `Proof`.

    Attributes:
        at: int64[k], the segment of the run; -1 for what came before it.
        table: int64[k, 5], the columns of `Proof`.
    """

    at: Ints
    table: Ints

    def beyond(self, offset: int) -> int:
        """Index of the first one that reaches beyond `offset`."""
        return int(self.table[:, 0].searchsorted(offset, "right"))

    def due(self, clock: Ints, packets: int, patience: int, patience_ns: int) -> Ints:
        """After which segment of the run each has been waited for long enough.

        Args:
            clock: int64[n], the latest capture time up to each segment.
            packets: packets of the connection before the run.
            patience: for how many packets.
            patience_ns: for how long.
        """
        by_count = self.table[:, 1] + (patience - packets - 1)
        by_time = clock.searchsorted(self.table[:, 2] + patience_ns)
        return np.maximum(np.minimum(by_count, by_time), np.maximum(self.at, 0))


@dataclass(slots=True)
class Arrivals:
    """Segments of one direction, each of which begins at the top of the stream or beyond.

    Attributes:
        rows, first: the segments of the run; the first one's place among them.
        packets: packets of the connection before the run.
        top: int64[n], offset up to which the stream is proved after each segment of the run.
        index: int64[k], which segments of the run these are.
        starts, ends: int64[k], offsets of their payload.
        proofs: of what was not captured, see `Half.proofs`.
        acks: acknowledgements that go beyond all before.
    """

    rows: Rows
    first: int
    packets: int
    top: Ints
    index: Ints
    starts: Ints
    ends: Ints
    proofs: Proofs
    acks: Proofs

"""Round-trip estimates from acknowledgements: a histogram per direction, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Eight bins an octave (9 % wide), up to 2**41 ns (37 minutes).
_PER_OCTAVE = 8
_BINS = 41 * _PER_OCTAVE
_EDGES = np.ceil(2.0 ** (np.arange(1, _BINS) / _PER_OCTAVE)).astype(np.int64)
_EDGE_LIST: list[int] = _EDGES.tolist()


class Rtt:
    """Times from a data segment to the first acknowledgement that covers it.

    The samples are those at the capture point: the way from there to the receiver and back,
    with the receiver's delay. A receiver may delay an acknowledgement (up to 40 ms on Linux) or
    let it ride on its answer, so only the low quantiles estimate the path.

    Attributes:
        count: samples.
        minimum: the least, in ns; None without samples.
    """

    __slots__ = ("_bins", "count", "minimum")

    def __init__(self) -> None:
        self.count = 0
        self.minimum: int | None = None
        self._bins: Ints | None = None

    def add(self, sample: int) -> None:
        """Take one sample in ns; negative ones (unsorted input) are left out."""
        if sample < 0:
            return
        if self._bins is None:
            self._bins = np.zeros(_BINS, np.int64)
        self._bins[bisect_right(_EDGE_LIST, sample)] += 1
        self.count += 1
        if self.minimum is None or sample < self.minimum:
            self.minimum = sample

    def extend(self, samples: Ints) -> None:
        """Take int64[n] samples in ns."""
        samples = samples[samples >= 0]
        if not len(samples):
            return
        if self._bins is None:
            self._bins = np.zeros(_BINS, np.int64)
        self._bins += np.bincount(np.searchsorted(_EDGES, samples, "right"), minlength=_BINS)
        self.count += len(samples)
        low = int(samples.min())
        self.minimum = low if self.minimum is None else min(self.minimum, low)

    def quantile(self, q: float) -> int | None:
        """The `q` quantile (0 to 1) in ns, within 9 %; None without samples."""
        if self._bins is None or self.minimum is None:
            return None
        rank = min(int(q * self.count), self.count - 1)
        index = int(np.searchsorted(np.cumsum(self._bins), rank, "right"))
        low = _EDGE_LIST[index - 1] if index else 0
        return max(low, self.minimum)

    @property
    def median(self) -> int | None:
        """The median in ns, within 9 %."""
        return self.quantile(0.5)

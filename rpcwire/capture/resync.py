"""Search for the next credible run of record headers behind a damaged place.

All byte positions are judged at once: a field at every position is four views of the bytes,
each shifted by one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.packets import Bytes, Index, rows

# Headers in a row that must be credible; a few random bytes may look like one.
RUN = 4
# Positions judged at a time: few at first, as the chain often goes on nearby; never so many
# that hostile bytes can ask for much memory.
FIRST_WINDOW, LAST_WINDOW = 4 << 10, 256 << 10

Mask = NDArray[np.bool_]
Headers = NDArray[np.void]


class Layout(Protocol):
    """What a container's records look like."""

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Front of a record header, all fields 32 bits wide."""

    def credible(self, head: Headers) -> Mask:
        """Whether each header by itself can be real."""

    def size(self, head: Headers) -> Index:
        """Bytes from each header to the next."""

    def agree(self, data: Bytes, at: Index, head: Headers, following: Headers) -> Mask:
        """Whether each record at `at` is whole and can be followed by that next header."""


def find_run(data: Bytes, start: int, end: int, layout: Layout, final: bool) -> tuple[int, bool]:
    """Find where a run of credible record headers begins.

    Args:
        data: uint8[*].
        start: first index to consider.
        end: index behind the last byte that came.
        layout: what records look like.
        final: whether no more bytes will come.

    Returns:
        Index and True where a run begins; otherwise False and the index before which none does.
    """
    open_at: int | None = None
    last = end - layout.dtype.itemsize + 1
    low, window = start, FIRST_WINDOW
    while low < last:
        candidates = _candidates(data, low, min(low + window, last), layout)
        found, pending = _follow(data, candidates, end, layout, final)
        if found is not None:
            return found, True
        if open_at is None:
            open_at = pending
        low, window = low + window, min(2 * window, LAST_WINDOW)
    return (max(start, last) if open_at is None else open_at), False


def _candidates(data: Bytes, low: int, high: int, layout: Layout) -> Index:
    """Indices in [low, high) whose header is credible by itself."""
    every: Headers = np.ndarray((high - low,), layout.dtype, data, low, (1,))
    return np.flatnonzero(layout.credible(every)) + low


def _follow(
    data: Bytes, origin: Index, end: int, layout: Layout, final: bool
) -> tuple[int | None, int | None]:
    """First origin whose chain holds, and first whose chain leaves the bytes that came."""
    size = layout.dtype.itemsize
    accepted: list[int] = []
    pending: list[int] = []
    at = origin
    for hop in range(RUN - 1):
        head = rows(data, at, layout.dtype)
        following = at + layout.size(head)
        inside = following + size <= end
        leaving = (
            origin[~inside & ((hop > 1) | ((hop > 0) & (following == end)))]
            if final
            else origin[~inside]
        )
        (accepted if final else pending).extend(leaving[:1].tolist())
        origin, at, head, following = origin[inside], at[inside], head[inside], following[inside]
        good = layout.agree(data, at, head, rows(data, following, layout.dtype))
        origin, at = origin[good], following[good]
    accepted.extend(origin[:1].tolist())
    return min(accepted, default=None), min(pending, default=None)

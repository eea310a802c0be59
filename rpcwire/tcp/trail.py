"""What proved that a stream goes on, in order: appended to one by one or many at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Proof(NamedTuple):
    """A packet that showed that the stream reaches `offset`; `packets` is its ordinal, from 1."""

    offset: int
    packets: int
    time_ns: int
    number: int
    file: int


_NONE = np.empty((0, len(Proof._fields)), np.int64)


class Trail:
    """Proofs with rising offsets: a table, and single ones behind it."""

    __slots__ = ("_more", "_table")

    def __init__(self) -> None:
        self._table = _NONE
        # A list, not a deque: an empty deque takes 600 bytes, and a scan opens many connections.
        self._more: list[Proof] = []

    def __len__(self) -> int:
        return len(self._table) + len(self._more)

    @property
    def first(self) -> Proof:
        """The one that reaches least far."""
        return Proof(*self._table[0].tolist()) if len(self._table) else self._more[0]

    @property
    def before_last(self) -> int:
        """The offset of the last but one; 0 without."""
        if len(self._more) > 1:
            return self._more[-2].offset
        row = len(self._more) - 2
        return int(self._table[row, 0]) if len(self._table) >= -row else 0

    def append(self, proof: Proof) -> None:
        """Add one that reaches farther than all."""
        self._more.append(proof)

    def forget(self, offset: int) -> None:
        """Drop those that reach no farther than an offset."""
        if len(self._table) and self._table[0, 0] <= offset:
            self._table = self._table[self._table[:, 0].searchsorted(offset, "right") :]
        if not len(self._table):
            more = self._more
            while more and more[0].offset <= offset:
                more.pop(0)

    def clear(self) -> None:
        """Drop all."""
        self._table = _NONE
        self._more.clear()

    def table(self) -> Ints:
        """int64[k, 5] of all, the columns those of `Proof`; not to be written to."""
        if self._more:
            self._table = np.concatenate([self._table, np.array(self._more, np.int64)])
            self._more = []
        return self._table

    def replace(self, table: Ints) -> None:
        """Have these instead."""
        self._table = table
        self._more.clear()

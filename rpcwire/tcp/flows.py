"""Which segments of a batch share their two endpoints, whichever way they travel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import SegmentBatch

Words = NDArray[np.uint64]
Index = NDArray[np.int64]

# Address halves and port of one endpoint, then of the other; the smaller endpoint first.
FlowKey = tuple[int, int, int, int, int, int]

# Unpredictable, so that no input can be made whose flows all collide; the result does not
# depend on it, because every group is compared with its exact key.
_SALT = np.frombuffer(os.urandom(32), np.uint64) | np.uint64(1)


def groups(batch: SegmentBatch, index: Index) -> Iterator[tuple[FlowKey, Index, NDArray[np.int8]]]:
    """Split the segments at int64[n] `index` by flow.

    Yields:
        The flow's key, the positions of its segments in file order, and int8[m]: 0 where the
        first endpoint of the key is the sender, else 1.
    """
    if not len(index):
        return
    mixed = _mix(batch.src, batch.sport) + _mix(batch.dst, batch.dport)
    if len(index) < len(batch):
        mixed = mixed[index]
    if (mixed == mixed[0]).all():
        yield from _exact(batch, index)
        return
    by_flow = np.argsort(mixed, kind="stable")
    ordered = mixed[by_flow]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    index = index[by_flow]
    bounds = [0, *cuts.tolist(), len(index)]
    for i, j in pairwise(bounds):
        yield from _exact(batch, index[i:j])


def _mix(address: Words, port: NDArray[np.uint16]) -> Words:
    word = address[:, 0] * _SALT[0] + address[:, 1]
    word = (word ^ (word >> np.uint64(29))) * _SALT[1] + port
    word = (word ^ (word >> np.uint64(32))) * _SALT[2]
    mixed: Words = word ^ (word >> np.uint64(29))
    return mixed


def _exact(batch: SegmentBatch, index: Index) -> Iterator[tuple[FlowKey, Index, NDArray[np.int8]]]:
    while len(index):
        first = int(index[0])
        a = (*batch.src[first].tolist(), int(batch.sport[first]))
        b = (*batch.dst[first].tolist(), int(batch.dport[first]))
        if b < a:
            a, b = b, a
        everything = len(index) == len(batch)
        src = batch.src if everything else batch.src[index]
        dst = batch.dst if everything else batch.dst[index]
        sport = batch.sport if everything else batch.sport[index]
        dport = batch.dport if everything else batch.dport[index]
        forth = _is(src, sport, a) & _is(dst, dport, b)
        back = _is(src, sport, b) & _is(dst, dport, a)
        same = forth | back
        if same.all():
            yield (*a, *b), index, (~forth).view(np.int8)
            return
        yield (*a, *b), index[same], (~forth[same]).view(np.int8)
        index = index[~same]


def _is(
    address: Words, port: NDArray[np.uint16], endpoint: tuple[int, int, int]
) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (
        (address[:, 1] == np.uint64(endpoint[1]))
        & (port == np.uint16(endpoint[2]))
        & (address[:, 0] == np.uint64(endpoint[0]))
    )
    return same

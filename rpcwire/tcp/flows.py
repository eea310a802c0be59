"""Which segments of a batch share their two endpoints, whichever way they travel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.packet import Endpoint
from rpcwire.tcp.sightings import Hold, Trial

Words = NDArray[np.uint64]
Index = NDArray[np.int64]

# Address halves and port of one endpoint, then of the other; the smaller endpoint first.
FlowKey = tuple[int, int, int, int, int, int]

# Unpredictable, so that no input can be made whose flows all collide; the result does not
# depend on it, because every group is compared with its exact key.
_SALT = np.frombuffer(os.urandom(32), np.uint64) | np.uint64(1)


class Flow:
    """Two endpoints, and what is known of them.

    Attributes:
        number: from 0 in the order of creation.
        endpoints: address and port of each end.
        connection: the present connection between them.
        route: the flow that this one is another sighting of, and whether its ends are numbered
            the other way round.
        decided: what `route` will be at the end of the present batch.
        isn: the initiator's sequence number of the handshake that told so.
        trial: whether it is another sighting is being found out.
        hold: what the trial says.
    """

    __slots__ = ("connection", "decided", "hold", "isn", "key", "number", "route", "trial")

    def __init__(self, key: FlowKey, number: int) -> None:
        self.key = key
        self.number = number
        self.connection: Connection | None = None
        self.route: tuple[Flow, int] | None = None
        self.decided: tuple[Flow, int] | None = None
        self.isn: int | None = None
        self.trial: Trial | None = None
        self.hold: Hold | None = None

    @property
    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Address and port of each end."""
        key = self.key
        return (_address(key[0], key[1]), key[2]), (_address(key[3], key[4]), key[5])

    def root(self) -> tuple[Flow, int]:
        """The flow that has the connection, and whether its ends are numbered the other way."""
        flow, swap = self, 0
        while flow.decided is not None:
            swap ^= flow.decided[1]
            flow = flow.decided[0]
        return flow, swap


class FlowTable:
    """All flows that are remembered, the least recently used first."""

    def __init__(self) -> None:
        self._flows: dict[FlowKey, Flow] = {}
        self._numbered: dict[int, Flow] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def get(self, key: FlowKey) -> Flow:
        """The flow of a key, new when there is none."""
        flow = self._flows.pop(key, None)
        if flow is None:
            flow = Flow(key, self._count)
            self._numbered[flow.number] = flow
            self._count += 1
        elif flow.route is not None and flow.route[0].number not in self._numbered:
            flow.route = flow.decided = None
        self._flows[key] = flow
        return flow

    def numbered(self, number: int) -> Flow | None:
        """The flow of that number, None when it was dropped."""
        return self._numbered.get(number)

    def drop(self, flow: Flow) -> None:
        """Forget a flow."""
        self._flows.pop(flow.key, None)
        self._numbered.pop(flow.number, None)

    def surplus(self, keep: int) -> list[Flow]:
        """The flows to drop so that `keep` remain: those without payload first, then the oldest."""
        flows = sorted(self, key=lambda flow: flow.connection is not None and flow.connection.busy)
        return flows[: len(flows) - keep]


@dataclass(slots=True)
class Part:
    """The segments of one flow in a batch.

    Attributes:
        where: int64[n], their positions in the batch, rising.
        end: int8[n], 0 where the flow's first end is the sender, else 1.
    """

    flow: Flow
    where: Index
    end: NDArray[np.int8]


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
        if len(index) == 1:
            sender = (*batch.src[first].tolist(), int(batch.sport[first]))
            yield (*a, *b), index, np.array([sender != a], np.int8)
            return
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


def _address(high: int, low: int) -> str:
    if not high and low >> 32 == 0xFFFF:
        return str(IPv4Address(low & 0xFFFFFFFF))
    return str(IPv6Address(high << 64 | low))

"""One connection captured at several points under different addresses: bridge, NAT.

Two flows are one connection when both initial sequence numbers of the handshake agree, or, where
no handshake was captured, when packets of both directions agree in sequence number,
acknowledgement, length and payload, within a short time. Sequence numbers of real connections are
random; small ones are written by tools, and prove nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.limits import Limits

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Roots = Callable[[int], int | None]

CREDIBLE = 1 << 16
_PAIRS = 16384
# Packets looked at for one packet on trial, and flows it may be a sighting of: a flood of equal
# packets must not cost more than any other.
_LOOKS = 64
_CANDIDATES = 4
_EDGE = 8
_MASK = 0xFFFFFFFF
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)


class Handshakes:
    """Initial sequence numbers seen lately, and the flow and initiator's end they belong to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: OrderedDict[tuple[int, int], tuple[int, int, int]] = OrderedDict()

    def match(
        self, flow: int, initiator: int, numbers: tuple[int, int], time_ns: int
    ) -> tuple[int, int] | None:
        """Note a SYN+ACK; gives flow and initiator's end of an earlier sighting of it.

        Args:
            flow: number of the flow.
            initiator: the end of the flow that opened the connection.
            numbers: sequence numbers of the initiator's SYN and of this one.
            time_ns: capture time.
        """
        if numbers[0] == numbers[1] or min(numbers) < CREDIBLE:
            return None
        seen = self._seen.get(numbers)
        if seen is not None and time_ns - seen[2] <= self._limits.copy_ns:
            return None if seen[0] == flow else seen[:2]
        self._seen[numbers] = (flow, initiator, time_ns)
        if len(self._seen) > _PAIRS:
            self._seen.popitem(last=False)
        return None


def signatures(batch: SegmentBatch, first: int) -> Words:
    """One number for all that copies of a segment have in common, from segment `first` on.

    Returns:
        uint64[n - first], of sequence number, acknowledgement, length and the payload's two ends.
    """
    word = batch.seq[first:].astype(np.uint64) << np.uint64(32) | batch.ack[first:]
    start, captured = batch.payload[first:], batch.captured[first:]
    for part in (
        batch.length[first:].view(np.uint64),
        _edge(batch.data, start, captured),
        _edge(batch.data, start + np.maximum(captured - _EDGE, 0), captured),
    ):
        for factor in _FACTORS:
            word = (word ^ (word >> np.uint64(31))) * np.uint64(factor)
        word = word ^ part
    return word


def _edge(data: NDArray[np.uint8], start: Ints, captured: Ints) -> Words:
    """Up to eight payload bytes as a number."""
    if len(data) < _EDGE:
        data = np.concatenate([data, np.zeros(_EDGE, np.uint8)])
    # One word a row, read a little earlier where the buffer ends, then cut to what is payload.
    at = np.minimum(start, len(data) - _EDGE)
    every: Words = np.ndarray((len(data) - _EDGE + 1,), "<u8", data, 0, (1,))
    word = every[at] >> ((start - at).astype(np.uint64) * np.uint64(8))
    wanted: Words = word & _MASKS[np.minimum(captured, _EDGE)]
    return wanted


# By number of bytes: the word with so many low bytes set.
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_EDGE + 1)], np.uint64)


@dataclass(slots=True)
class Recent:
    """The last segments, of all flows, in order.

    Attributes:
        signature: uint64[n].
        flow, end, order, time_ns: int64[n]; the flow's number, which of its ends sent it,
            its ordinal, its capture time.
    """

    signature: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    flow: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    end: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    order: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    time_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def then(self, more: Recent) -> Recent:
        """These and those after them."""
        return Recent(*(
            np.concatenate([getattr(self, name), getattr(more, name)])
            for name in ("signature", "flow", "end", "order", "time_ns")
        ))  # fmt: skip

    def last(self, count: int) -> Recent:
        """The last `count` of them."""
        return self.between(max(len(self.flow) - count, 0), len(self.flow))

    def between(self, i: int, j: int) -> Recent:
        """Those from `i` up to `j`."""
        return Recent(
            self.signature[i:j], self.flow[i:j], self.end[i:j], self.order[i:j], self.time_ns[i:j]
        )


@dataclass(slots=True)
class Hold:
    """Until when the packets of a connection without a handshake are kept back.

    Attributes:
        until: ordinal of the packet that ends it; None while it must go on.
    """

    until: int | None = 0


@dataclass(slots=True)
class Sample:
    """What a trial needs to know of a packet."""

    signature: int
    end: int
    loaded: bool
    size: int
    order: int
    time_ns: int
    credible: bool


class Trial:
    """Whether a flow without a handshake is a second sighting of another flow.

    It ends with `flow` set when it is, without when it is not.

    Attributes:
        hold: tells the connection to keep its packets back.
        over: the verdict is in.
        flow, swap: the other flow, and whether its ends are numbered the other way round.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: dict[int, Sample] = {}
        self._first_ns = 0
        self._packets = self._segments = self._bytes = 0
        self._matched: dict[tuple[int, int], set[int]] = {}
        self._checked: dict[tuple[int, int], int] = {}
        self.hold = Hold()
        self.over = False
        self.flow: int | None = None
        self.swap = 0

    def step(self, own: int, packet: Sample, recent: Recent, root: Roots) -> None:
        """Take the flow's next packet.

        Args:
            own: number of the flow on trial.
            packet: its packet.
            recent: segments before it; flow -1 where nobody wants them.
            root: of a flow's number, that of the flow it is a sighting of; None when forgotten.
        """
        if not self._packets:
            self._first_ns = packet.time_ns
        self._packets += 1
        self._segments += packet.loaded
        self._bytes += packet.size
        if packet.credible:
            self._seen[packet.signature] = packet
        self._look(own, packet, recent, root)
        for (flow, swap), matched in self._matched.items():
            ends = {self._seen[s].end for s in matched}
            if len(ends) == 2 and len(matched) >= 3 and any(self._seen[s].loaded for s in matched):
                self.over, self.flow, self.swap = True, flow, swap
                self.hold.until = packet.order
                return
        limits = self._limits
        elapsed = packet.time_ns - self._first_ns
        if self._matched:
            self.over = (
                self._packets >= limits.suspect_packets
                or self._bytes >= limits.suspect_bytes
                or elapsed >= limits.suspect_ns
            )
            self.hold.until = packet.order if self.over else None
        else:
            self.over = limits.started(self._packets, self._segments, elapsed)

    def _look(self, own: int, packet: Sample, recent: Recent, root: Roots) -> None:
        """Find the packet among earlier ones, and earlier packets of it among later ones."""
        same = recent.signature == np.uint64(packet.signature)
        known = np.fromiter(self._seen, np.uint64, len(self._seen))
        for flow, swap in list(self._matched):
            part = recent.flow == flow
            part &= recent.order > self._checked[flow, swap]
            same |= part & np.isin(recent.signature, known)
            self._checked[flow, swap] = packet.order
        same &= (recent.flow != own) & (recent.flow >= 0)
        for i in np.flatnonzero(same)[:_LOOKS].tolist():
            mine = self._seen.get(int(recent.signature[i]))
            flow = int(recent.flow[i])
            if mine is None or abs(mine.time_ns - int(recent.time_ns[i])) > self._limits.copy_ns:
                continue
            if root(flow) in (None, own):
                continue
            key = (flow, mine.end ^ int(recent.end[i]))
            if key not in self._matched and len(self._matched) >= _CANDIDATES:
                continue
            self._matched.setdefault(key, set()).add(mine.signature)
            self._checked.setdefault(key, self._first_order())

    def _first_order(self) -> int:
        return min(sample.order for sample in self._seen.values()) - self._limits.window

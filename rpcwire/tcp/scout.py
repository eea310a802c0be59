"""Looks through a batch for flows that are second sightings, before the streams are touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import ACK, SYN, SegmentBatch
from rpcwire.tcp.flows import Flow, FlowTable, Part
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.sightings import CREDIBLE, Handshakes, Recent, Sample, Trial, signatures

_MASK = 0xFFFFFFFF


@dataclass(slots=True)
class Event:
    """From segment `at` of the batch on, a flow has another route (see `Flow.route`)."""

    at: int
    route: tuple[Flow, int] | None


class Scout:
    """Finds when flows begin and cease to be second sightings of others."""

    def __init__(self, limits: Limits, table: FlowTable) -> None:
        self._limits = limits
        self._table = table
        self._handshakes = Handshakes(limits)
        self._recent = Recent()

    def look(self, batch: SegmentBatch, parts: list[Part], fed: int) -> dict[Flow, list[Event]]:
        """Events of a batch by flow, each list in order.

        Args:
            batch: the segments.
            parts: the same by flow.
            fed: segments fed before.
        """
        number = np.full(len(batch), -1, np.int64)
        end = np.zeros(len(batch), np.int64)
        for part in parts:
            number[part.where] = part.flow.number
            end[part.where] = part.end
        events: dict[Flow, list[Event]] = {}
        syns = np.flatnonzero((batch.flags & SYN != 0) & (number >= 0))
        if len(syns):
            self._read_handshakes(batch, syns, number, end, events)
        trials = [part for part in parts if self._on_trial(part, batch, events)]
        first = 0 if trials else max(len(batch) - self._limits.window, 0)
        fresh = Recent(
            signatures(batch, first), number[first:], end[first:],
            np.arange(fed + first, fed + len(batch)), batch.time_ns[first:],
        )  # fmt: skip
        recent = (
            self._recent.then(fresh) if len(fresh.flow) < self._limits.window or trials else fresh
        )
        for at, flow in _in_order(trials, self._limits.suspect_packets):
            if flow.trial is not None:
                self._try(flow, flow.trial, at=at, batch=batch, recent=recent, events=events)
        self._recent = recent.last(self._limits.window)
        return events

    def _read_handshakes(
        self,
        batch: SegmentBatch,
        syns: NDArray[np.int64],
        number: NDArray[np.int64],
        end: NDArray[np.int64],
        events: dict[Flow, list[Event]],
    ) -> None:
        for at in syns.tolist():
            flow = self._table.numbered(int(number[at]))
            assert flow is not None
            seq = int(batch.seq[at])
            if not batch.flags[at] & ACK:
                if flow.decided is not None and seq != flow.isn:
                    self._decide(flow, at, None, events)
                continue
            opened = (int(batch.ack[at]) - 1) & _MASK
            if flow.decided is not None and opened == flow.isn:
                continue
            initiator = 1 - int(end[at])
            match = self._handshakes.match(
                flow.number, initiator, (opened, seq), int(batch.time_ns[at])
            )
            other = None if match is None else self._table.numbered(match[0])
            if match is None or other is None:
                continue
            root, swap = other.root()
            if root is flow:
                continue
            flow.isn = opened
            self._decide(flow, at, (root, swap ^ match[1] ^ initiator), events)

    def _on_trial(self, part: Part, batch: SegmentBatch, events: dict[Flow, list[Event]]) -> bool:
        flow = part.flow
        if flow.route is not None or flow in events:
            flow.trial = None
            return False
        if flow.trial is None and flow.connection is None:
            if batch.flags[part.where[0]] & SYN:
                return False
            flow.trial = Trial(self._limits)
            flow.hold = flow.trial.hold
        return flow.trial is not None

    def _try(
        self,
        flow: Flow,
        trial: Trial,
        *,
        at: int,
        batch: SegmentBatch,
        recent: Recent,
        events: dict[Flow, list[Event]],
    ) -> None:
        now = len(recent.flow) - len(batch) + at
        order = int(recent.order[now])
        if batch.flags[at] & SYN:
            trial.hold.until = order
            flow.trial = None
            return
        sample = Sample(
            int(recent.signature[now]), int(recent.end[now]), bool(batch.length[at]),
            int(batch.captured[at]), order, int(batch.time_ns[at]),
            min(int(batch.seq[at]), int(batch.ack[at])) >= CREDIBLE,
        )  # fmt: skip
        before = recent.between(max(now - self._limits.window, 0), now)
        trial.step(flow.number, sample, before, self._root)
        if not trial.over:
            return
        flow.trial = None
        other = None if trial.flow is None else self._table.numbered(trial.flow)
        if other is not None:
            root, swap = other.root()
            if root is not flow:
                flow.isn = None
                self._decide(flow, at, (root, swap ^ trial.swap), events)

    @staticmethod
    def _decide(
        flow: Flow, at: int, route: tuple[Flow, int] | None, events: dict[Flow, list[Event]]
    ) -> None:
        flow.decided = route
        events.setdefault(flow, []).append(Event(at, route))

    def _root(self, number: int) -> int | None:
        flow = self._table.numbered(number)
        return None if flow is None else flow.root()[0].number


def _in_order(parts: list[Part], most: int) -> Iterator[tuple[int, Flow]]:
    """Position and flow of the first segments of each part, in the order of capture.

    Args:
        parts: the parts.
        most: segments of each that matter, since no trial lasts longer.
    """
    if not parts:
        return
    heads = [part.where[:most] for part in parts]
    where = np.concatenate(heads)
    whose = np.repeat(np.arange(len(parts)), [len(head) for head in heads])
    for i in np.argsort(where, kind="stable").tolist():
        yield int(where[i]), parts[whose[i]].flow

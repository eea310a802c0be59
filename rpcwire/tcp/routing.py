"""The segments of a batch on their way to connections, which may be seen at several points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.feeder import Feeder
from rpcwire.tcp.flows import Flow, Part
from rpcwire.tcp.packet import Bytes
from rpcwire.tcp.rows import Rows
from rpcwire.tcp.scout import Event


@dataclass(slots=True)
class _Merge:
    """From segment `at` of the batch on, another flow's packets are the target's too."""

    at: int
    flow: Flow
    swap: int
    begun: Connection | None


class Routing:
    """Takes the parts of one batch.

    Args:
        batch: the segments.
        fed: segments fed before.
        feeder: takes the segments of one flow.
        close: called with a connection that is over, and the batch's buffer.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        fed: int,
        feeder: Feeder,
        close: Callable[[Connection, Bytes], None],
    ) -> None:
        self._batch, self._fed = batch, fed
        self._feeder, self._close = feeder, close
        self._routed: dict[Flow, list[Part]] = {}
        self._merges: dict[Flow, list[_Merge]] = {}

    def take(self, parts: list[Part], events: dict[Flow, list[Event]]) -> list[Flow]:
        """Take all segments; gives the flows whose connections may have something to deliver."""
        touched: dict[Flow, None] = {}
        plain: list[Part] = []
        for part in parts:
            flow = part.flow
            if flow in events or flow.route is not None:
                self._split(part, events.get(flow, []))
                touched[flow] = None
            else:
                plain.append(part)
        routed, merges = self._routed, self._merges
        for part in plain:
            flow = part.flow
            if flow in routed or flow in merges:
                routed.setdefault(flow, []).append(part)
            else:
                self._feeder.take(flow, self._rows(part.where, part.end))
                touched[flow] = None
        for flow in {**routed, **merges}:
            self._together(flow, routed.get(flow, []), merges.get(flow, []))
            touched[flow] = None
        return list(touched)

    def _split(
        self,
        part: Part,
        events: list[Event],
    ) -> None:
        """Send the segments of a flow that is, or becomes, another's second sighting there."""
        flow, begin = part.flow, 0
        for event in [*events, None]:
            stop = len(part.where) if event is None else int(
                np.searchsorted(part.where, event.at)
            )  # fmt: skip
            where, end = part.where[begin:stop], part.end[begin:stop]
            begin = stop
            if len(where) and flow.route is None:
                self._feeder.take(flow, self._rows(where, end))
            elif len(where) and flow.route is not None:
                target, swap = flow.route
                target, more = target.root()
                swap ^= more
                self._routed.setdefault(target, []).append(Part(target, where, end ^ np.int8(swap)))
            if event is None:
                break
            flow.route = event.route
            if event.route is None:
                continue
            begun, flow.connection = flow.connection, None
            if begun is not None and not begun.embryonic:
                self._close(begun, self._batch.data)
                begun = None
            target, swap = event.route
            target, more = target.root()
            self._merges.setdefault(target, []).append(_Merge(event.at, flow, swap ^ more, begun))

    def _together(self, flow: Flow, parts: list[Part], merges: list[_Merge]) -> None:
        """Take the segments of all sightings of a connection in the order of capture."""
        where = np.concatenate([part.where for part in parts] or [_NO_INDEX])
        end = np.concatenate([part.end for part in parts] or [_NO_INDEX.astype(np.int8)])
        by_order = np.argsort(where, kind="stable")
        where, end = where[by_order], end[by_order]
        begin = 0
        for merge in sorted(merges, key=lambda merge: merge.at):
            stop = int(np.searchsorted(where, merge.at))
            if stop > begin:
                rows = self._rows(where[begin:stop], end[begin:stop])
                self._feeder.take(flow, rows)
            begin = stop
            for packet in merge.begun.kept() if merge.begun else []:
                self._feeder.one(
                    flow, packet._replace(end=packet.end ^ merge.swap), self._batch.data
                )
            if flow.connection is not None:
                flow.connection.merge(merge.flow.endpoints, merge.swap, merge.begun)
        if len(where) > begin:
            self._feeder.take(flow, self._rows(where[begin:], end[begin:]))

    def _rows(self, where: NDArray[np.int64], end: NDArray[np.int8]) -> Rows:
        return Rows.gather(self._batch, where, end, self._fed)


_NO_INDEX = np.empty(0, np.int64)

"""Segments in, streams out: the outer face of the TCP layer."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.fast import advance
from rpcwire.tcp.flows import Flow, FlowTable, Index, Part, groups
from rpcwire.tcp.half import Bytes, Packet
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rows import Rows
from rpcwire.tcp.scout import Event, Scout
from rpcwire.tcp.span import Span

_CHUNK = 8192
_SLOW = 32
_RUN_BYTES = 1 << 30

Spans = tuple[list[Span], list[Span]]
_Found = tuple["Connection", Spans, bool]


@dataclass(slots=True)
class Delivery:
    """What one connection yields.

    Attributes:
        connection: where the counters are.
        spans: stream bytes of side 0 and of side 1, each in stream order.
        closed: nothing more will come of this connection.
        last_number: number of the last packet of the batch, of any kind.
    """

    connection: Connection
    spans: Spans
    closed: bool
    last_number: int


@dataclass(slots=True)
class _Merge:
    """From segment `at` of the batch on, another flow's packets are the target's too."""

    at: int
    flow: Flow
    swap: int
    begun: Connection | None


class Assembler:
    """Reassembles the streams of every connection, incrementally.

    Args:
        ports: only connections with one of these ports on either end; None takes all.
        limits: patience and memory.

    Attributes:
        filtered_packets, filtered_bytes: segments of other ports, and their payload.
        evicted: connections closed before their end because too many were open.
        abandoned: times that holes were declared lost early because too much was held.
    """

    def __init__(
        self, *, ports: Container[int] | None = None, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._ports = (
            None if ports is None else np.fromiter((p in ports for p in range(65536)), np.bool_)
        )
        self._table = FlowTable()
        self._scout = Scout(self._limits, self._table)
        self._holding: dict[Connection, None] = {}
        self._closing: dict[Flow, None] = {}
        self._found: list[_Found] = []
        self._fed = self._last_number = self._ids = 0
        self._now = 0
        self.filtered_packets = self.filtered_bytes = 0
        self.evicted = self.abandoned = 0

    def feed(self, batch: SegmentBatch) -> list[Delivery]:
        """Take the next segments; gives all that became deliverable, in order of `known`."""
        self._last_number = batch.last_number
        if not len(batch):
            return []
        parts = [
            Part(self._table.get(key), where, end)
            for key, where, end in groups(batch, self._wanted(batch))
        ]
        parts.sort(key=lambda part: int(part.where[0]))
        events = self._scout.look(batch, parts, self._fed)
        touched: dict[Flow, None] = {}
        merges: dict[Flow, list[_Merge]] = {}
        routed: dict[Flow, list[Part]] = {}
        plain: list[Part] = []
        for part in parts:
            flow = part.flow
            if flow in events or flow.route is not None:
                self._split(part, events.get(flow, []), batch, routed, merges)
                touched[flow] = None
            else:
                plain.append(part)
        for part in plain:
            flow = part.flow
            if flow in routed or flow in merges:
                routed.setdefault(flow, []).append(part)
            else:
                self._run(flow, Rows.gather(batch, part.where, part.end, self._fed))
                touched[flow] = None
        for flow in {**routed, **merges}:
            self._together(flow, routed.get(flow, []), merges.get(flow, []), batch)
            touched[flow] = None
        self._fed += len(batch)
        self._now = max(self._now, int(batch.time_ns.max()))
        for flow in touched:
            if flow.connection is not None:
                self._found.append((flow.connection, _flush(flow.connection, batch.data), False))
                self._keep(flow, flow.connection, batch.data)
        self._bound()
        return self._deliver()

    def finish(self) -> list[Delivery]:
        """End of input: what is missing is lost, every connection is closed."""
        self._end(list(self._table))
        return self._deliver()

    def notes(self) -> list[str]:
        """What had to be given up, one sentence each."""
        notes = []
        if self.evicted:
            notes.append(
                f"{self.evicted} connections were dropped before their end: more than "
                f"{self._limits.connections} at a time"
            )
        if self.abandoned:
            notes.append(
                f"{self.abandoned} connections with holes were not waited for: more than "
                f"{self._limits.total_bytes >> 20} MiB arrived out of order"
            )
        return notes

    def _wanted(self, batch: SegmentBatch) -> Index:
        if self._ports is None:
            return np.arange(len(batch), dtype=np.int64)
        wanted = self._ports[batch.sport] | self._ports[batch.dport]
        self.filtered_packets += int(np.count_nonzero(~wanted))
        self.filtered_bytes += int(batch.length[~wanted].sum())
        return np.flatnonzero(wanted)

    def _split(
        self,
        part: Part,
        events: list[Event],
        batch: SegmentBatch,
        routed: dict[Flow, list[Part]],
        merges: dict[Flow, list[_Merge]],
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
                self._run(flow, Rows.gather(batch, where, end, self._fed))
            elif len(where) and flow.route is not None:
                target, swap = flow.route
                target, more = target.root()
                swap ^= more
                routed.setdefault(target, []).append(Part(target, where, end ^ np.int8(swap)))
            if event is None:
                break
            flow.route = event.route
            if event.route is None:
                continue
            begun, flow.connection = flow.connection, None
            if begun is not None and not begun.embryonic:
                self._close(begun, batch.data)
                begun = None
            target, swap = event.route
            target, more = target.root()
            merges.setdefault(target, []).append(_Merge(event.at, flow, swap ^ more, begun))

    def _together(
        self, flow: Flow, parts: list[Part], merges: list[_Merge], batch: SegmentBatch
    ) -> None:
        """Take the segments of all sightings of a connection in the order of capture."""
        where = np.concatenate([part.where for part in parts] or [_NO_INDEX])
        end = np.concatenate([part.end for part in parts] or [_NO_INDEX.astype(np.int8)])
        by_order = np.argsort(where, kind="stable")
        where, end = where[by_order], end[by_order]
        begin = 0
        for merge in sorted(merges, key=lambda merge: merge.at):
            stop = int(np.searchsorted(where, merge.at))
            if stop > begin:
                rows = Rows.gather(batch, where[begin:stop], end[begin:stop], self._fed)
                self._run(flow, rows)
            begin = stop
            for packet in merge.begun.kept() if merge.begun else []:
                self._slow(flow, packet._replace(end=packet.end ^ merge.swap), batch.data)
            if flow.connection is not None:
                flow.connection.merge(merge.flow.endpoints, merge.swap, merge.begun)
        if len(where) > begin:
            self._run(flow, Rows.gather(batch, where[begin:], end[begin:], self._fed))

    def _run(self, flow: Flow, rows: Rows) -> None:
        i, n = 0, len(rows)
        step = _CHUNK
        while i < n:
            connection = flow.connection
            if connection is not None and n - i >= _SLOW and connection.clean:
                j = min(i + step, n)
                while int(rows.length[i:j].sum()) >= _RUN_BYTES and j > i + 1:
                    j = i + (j - i) // 2
                done = advance(connection, rows, i, j, self._limits)
                i += done
                step = min(step * 2, _CHUNK) if i == j else max(2 * _SLOW, done)
                if i == j:
                    continue
            j = min(i + _SLOW, n)
            for packet in rows.packets(i, j):
                self._slow(flow, packet, rows.data)
            i = j

    def _slow(self, flow: Flow, packet: Packet, data: Bytes) -> None:
        todo = [packet]
        while todo:
            packet = todo.pop(0)
            connection = flow.connection
            if connection is not None:
                rest = connection.packet(packet)
                if rest is None:
                    continue
                self._close(connection, data)
                todo = rest + todo
                packet = todo.pop(0)
            flow.connection = Connection(self._limits, flow.endpoints, packet, flow.hold)
            flow.connection.packet(packet)

    def _keep(self, flow: Flow, connection: Connection, data: Bytes) -> None:
        """Make what a connection holds independent of the batch; note what to look at later."""
        connection.own(data)
        if connection.held_bytes:
            self._holding[connection] = None
        else:
            self._holding.pop(connection, None)
        if connection.closed_ns is not None:
            self._closing[flow] = None

    def _bound(self) -> None:
        """Let go of what has ended, and of what is too much."""
        limits = self._limits
        held = sum(connection.held_bytes for connection in self._holding)
        while held > limits.total_bytes:
            connection = next(iter(self._holding))
            del self._holding[connection]
            held -= connection.held_bytes
            connection.give_up()
            self.abandoned += 1
            self._found.append((connection, _flush(connection, _NOTHING), False))
        gone = [
            flow
            for flow in self._closing
            if flow.connection is None or flow.connection.lingered(self._now)
        ]
        self._end(gone)
        if len(self._table) > limits.connections:
            surplus = self._table.surplus(limits.connections * 7 // 8)
            self.evicted += sum(
                flow.connection is not None and flow.connection.closed_ns is None
                for flow in surplus
            )
            self._end(surplus)

    def _end(self, flows: list[Flow]) -> None:
        for flow in flows:
            self._table.drop(flow)
            self._closing.pop(flow, None)
            if flow.connection is not None:
                self._close(flow.connection, _NOTHING)

    def _close(self, connection: Connection, data: Bytes) -> None:
        self._holding.pop(connection, None)
        connection.finish()
        self._found.append((connection, _flush(connection, data), True))

    def _deliver(self) -> list[Delivery]:
        found, self._found = self._found, []
        by_connection: dict[Connection, Delivery] = {}
        for connection, spans, closed in found:
            if not (closed or spans[0] or spans[1]):
                continue
            delivery = by_connection.get(connection)
            if delivery is None:
                by_connection[connection] = Delivery(connection, spans, closed, self._last_number)
                continue
            for side, more in zip(delivery.spans, spans, strict=True):
                side.extend(more)
            delivery.closed = closed
        deliveries = sorted(by_connection.values(), key=_known)
        for delivery in deliveries:
            if delivery.connection.id < 0:
                delivery.connection.id = self._ids
                self._ids += 1
        return deliveries


def _flush(connection: Connection, data: Bytes) -> Spans:
    first, second = connection.sides
    if connection.ignored:
        first.drop()
        second.drop()
    return first.flush(data), second.flush(data)


def _known(delivery: Delivery) -> int:
    """When the delivery begins: the first piece's ordinal, or the connection's last packet."""
    return min(
        (int(s[0].known[0]) for s in delivery.spans if s and s[0].known is not None),
        default=delivery.connection.last_order,
    )


_NOTHING = np.empty(0, np.uint8)
_NO_INDEX = np.empty(0, np.int64)

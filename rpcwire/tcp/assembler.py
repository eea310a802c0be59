"""Segments in, streams out: the outer face of the TCP layer."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.delivery import Deliveries, Delivery
from rpcwire.tcp.feeder import Feeder
from rpcwire.tcp.flows import Flow, FlowTable, Index, Part, groups
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.packet import Bytes
from rpcwire.tcp.routing import Routing
from rpcwire.tcp.scout import Scout

__all__ = ["Assembler", "Delivery"]


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
        self._found = Deliveries()
        self._feeder = Feeder(self._limits, self._close)
        self._fed = self._last_number = 0
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
        routing = Routing(batch, self._fed, self._feeder, self._close)
        touched = routing.take(parts, events)
        self._fed += len(batch)
        self._now = max(self._now, int(batch.time_ns.max()))
        for flow in touched:
            if flow.connection is not None:
                self._found.add(flow.connection, batch.data)
                self._keep(flow, flow.connection, batch.data)
        self._bound()
        return self._found.take(self._last_number)

    def finish(self) -> list[Delivery]:
        """End of input: what is missing is lost, every connection is closed."""
        self._end(list(self._table))
        return self._found.take(self._last_number)

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
            self._found.add(connection, _NOTHING)
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
        self._found.add(connection, data, closed=True)


_NOTHING = np.empty(0, np.uint8)

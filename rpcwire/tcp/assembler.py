"""Segments in, streams out: the outer face of the TCP layer."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np

from rpcwire.capture.segments import SegmentBatch
from rpcwire.tcp.connection import Connection, Endpoint
from rpcwire.tcp.fast import advance
from rpcwire.tcp.flows import FlowKey, groups
from rpcwire.tcp.half import Packet
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rows import Rows
from rpcwire.tcp.span import Span

_CHUNK = 8192
_SLOW = 32
_RUN_BYTES = 1 << 30


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
    spans: tuple[list[Span], list[Span]]
    closed: bool
    last_number: int


@dataclass(slots=True)
class _Flow:
    key: FlowKey
    connection: Connection | None = None


class Assembler:
    """Reassembles the streams of every connection, incrementally.

    Args:
        ports: only connections with one of these ports on either end; None takes all.
        limits: patience and memory.
    """

    def __init__(
        self, *, ports: Container[int] | None = None, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._ports = (
            None if ports is None else np.fromiter((p in ports for p in range(65536)), np.bool_)
        )
        self._flows: dict[FlowKey, _Flow] = {}
        self._fed = 0
        self._last_number = 0
        self._ids = 0
        self._ended: list[tuple[Connection, tuple[list[Span], list[Span]]]] = []
        self.filtered_packets = self.filtered_bytes = 0

    def feed(self, batch: SegmentBatch) -> list[Delivery]:
        """Take the next segments; gives all that became deliverable, in order of `known`."""
        self._last_number = batch.last_number
        index = np.arange(len(batch), dtype=np.int64)
        if self._ports is not None and len(index):
            wanted = self._ports[batch.sport] | self._ports[batch.dport]
            self.filtered_packets += int(np.count_nonzero(~wanted))
            self.filtered_bytes += int(batch.length[~wanted].sum())
            index = index[wanted]
        touched: list[Connection] = []
        for key, where, end in groups(batch, index):
            flow = self._flows.get(key)
            if flow is None:
                flow = self._flows[key] = _Flow(key)
            self._run(flow, Rows.gather(batch, where, end, self._fed))
            if flow.connection is not None:
                touched.append(flow.connection)
        self._fed += len(batch)
        found = self._ended
        self._ended = []
        closed = len(found)
        for connection in touched:
            found.append((connection, _flush(connection, batch)))
            connection.own(batch.data)
        return self._deliver(found, closed)

    def finish(self) -> list[Delivery]:
        """End of input: what is missing is lost, every connection is closed."""
        found = []
        for flow in self._flows.values():
            if flow.connection is not None:
                flow.connection.finish()
                found.append((flow.connection, _flush(flow.connection, None)))
        self._flows.clear()
        return self._deliver(found, len(found))

    def _run(self, flow: _Flow, rows: Rows) -> None:
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
                self._slow(flow, packet, rows)
            i = j

    def _slow(self, flow: _Flow, packet: Packet, rows: Rows) -> None:
        todo = [packet]
        while todo:
            packet = todo.pop(0)
            connection = flow.connection
            if connection is not None:
                rest = connection.packet(packet)
                if rest is None:
                    continue
                connection.finish()
                self._ended.append((connection, _spans(connection, rows)))
                todo = rest + todo
                packet = todo.pop(0)
            flow.connection = Connection(self._limits, _endpoints(flow.key), packet)
            flow.connection.packet(packet)

    def _deliver(
        self, found: list[tuple[Connection, tuple[list[Span], list[Span]]]], closed: int
    ) -> list[Delivery]:
        deliveries = []
        for i, (connection, spans) in enumerate(found):
            if i < closed or spans[0] or spans[1]:
                if connection.ignored:
                    spans = ([], [])
                deliveries.append(Delivery(connection, spans, i < closed, self._last_number))
        deliveries.sort(key=_known)
        for delivery in deliveries:
            if delivery.connection.id < 0:
                delivery.connection.id = self._ids
                self._ids += 1
        return deliveries


def _spans(connection: Connection, rows: Rows) -> tuple[list[Span], list[Span]]:
    first, second = connection.sides
    return first.flush(rows.data), second.flush(rows.data)


def _flush(connection: Connection, batch: SegmentBatch | None) -> tuple[list[Span], list[Span]]:
    data = _NOTHING if batch is None else batch.data
    first, second = connection.sides
    return first.flush(data), second.flush(data)


def _known(delivery: Delivery) -> int:
    """When the delivery begins: the first piece's ordinal, or the connection's last packet."""
    return min(
        (int(s[0].known[0]) for s in delivery.spans if s and s[0].known is not None),
        default=delivery.connection.last_order,
    )


def _endpoints(key: FlowKey) -> tuple[Endpoint, Endpoint]:
    return (_address(key[0], key[1]), key[2]), (_address(key[3], key[4]), key[5])


def _address(high: int, low: int) -> str:
    if not high and low >> 32 == 0xFFFF:
        return str(IPv4Address(low & 0xFFFFFFFF))
    return str(IPv6Address(high << 64 | low))


_NOTHING = np.empty(0, np.uint8)

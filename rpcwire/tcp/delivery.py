"""What the TCP layer hands on after each batch, by connection."""

from __future__ import annotations

from dataclasses import dataclass

from rpcwire.tcp.connection import Connection
from rpcwire.tcp.packet import Bytes
from rpcwire.tcp.span import Span

Spans = tuple[list[Span], list[Span]]


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


class Deliveries:
    """Collects what became deliverable, and numbers connections as they first deliver."""

    def __init__(self) -> None:
        self._found: list[tuple[Connection, Spans, bool]] = []
        self._ids = 0

    def add(self, connection: Connection, data: Bytes, *, closed: bool = False) -> None:
        """Take out what a connection has; `data` is the batch's payload buffer."""
        self._found.append((connection, _flush(connection, data), closed))

    def take(self, last_number: int) -> list[Delivery]:
        """All of it, in order of `known`."""
        found, self._found = self._found, []
        by_connection: dict[Connection, Delivery] = {}
        for connection, spans, closed in found:
            if not (closed or spans[0] or spans[1]):
                continue
            delivery = by_connection.get(connection)
            if delivery is None:
                by_connection[connection] = Delivery(connection, spans, closed, last_number)
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
        first.out.drop(first.next)
        second.out.drop(second.next)
    return first.out.flush(data), second.out.flush(data)


def _known(delivery: Delivery) -> int:
    """When the delivery begins: the first piece's ordinal, or the connection's last packet."""
    return min(
        (int(s[0].known[0]) for s in delivery.spans if s and s[0].known is not None),
        default=delivery.connection.last_order,
    )

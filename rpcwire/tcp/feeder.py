"""Segments of a flow to its connection: many at a time where possible, else one by one."""

from __future__ import annotations

from collections.abc import Callable

from rpcwire.tcp.connection import Connection
from rpcwire.tcp.fast import advance
from rpcwire.tcp.flows import Flow
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.packet import Bytes, Packet
from rpcwire.tcp.rows import Rows

# Segments taken at once, taken one by one at most before the fast path is tried again, and too
# few for it to be worth while.
_CHUNK = 8192
_SLOW = 32
_FEW = 16
_RUN_BYTES = 1 << 30


class Feeder:
    """Gives flows their segments, and connections where they need new ones.

    Args:
        limits: patience and memory.
        close: called with a connection that another one follows, and the batch's buffer.
    """

    def __init__(self, limits: Limits, close: Callable[[Connection, Bytes], None]) -> None:
        self._limits, self._close = limits, close

    def take(self, flow: Flow, rows: Rows) -> None:
        """Take segments of a flow in order."""
        i, n = 0, len(rows)
        step, slow = _CHUNK, _SLOW
        while i < n:
            connection = flow.connection
            if connection is not None and n - i >= _FEW and connection.ready:
                j = min(i + step, n)
                while int(rows.length[i:j].sum()) >= _RUN_BYTES and j > i + 1:
                    j = i + (j - i) // 2
                done, few = advance(connection, rows, i, j, self._limits)
                i += done
                if i == j:
                    step = min(2 * step, _CHUNK)
                    continue
                step = max(2 * _SLOW, 2 * done)
                slow = few if done >= _FEW else max(few, min(2 * slow, _SLOW))
            else:
                slow = _SLOW
            j = min(i + slow, n)
            for packet in rows.packets(i, j):
                self.one(flow, packet, rows.data)
            i = j

    def one(self, flow: Flow, packet: Packet, data: Bytes) -> None:
        """Take one packet; one that belongs to a new connection ends the one before."""
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

"""The batch at hand while slimming, in columns, and the directions its packets belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rpcwire.capture.link import network_headers
from rpcwire.capture.segments import ACK
from rpcwire.record.headers import Header, find_tcp
from rpcwire.tcp.flows import Flow, FlowKey

if TYPE_CHECKING:
    from rpcwire.capture.packets import PacketBatch
    from rpcwire.capture.segments import SegmentBatch
    from rpcwire.record.bulk import Joined
    from rpcwire.record.outbox import Piece
    from rpcwire.record.stream import Stream
    from rpcwire.tcp.connection import Connection
    from rpcwire.tcp.span import Span


class Direction:
    """One direction between two endpoints, as addressed on the wire.

    Attributes:
        number: its place among all. peer: the other way round.
        connection, stream: what its packets were found to belong to; None before.
        joined: record that may still grow.
    """

    __slots__ = ("connection", "joined", "number", "peer", "stream")

    def __init__(self, number: int) -> None:
        self.number = number
        self.peer: Direction = self
        self.connection: Connection | None = None
        self.stream: Stream | None = None
        self.joined: tuple[Joined, Header, int, int] | None = None


class Columns:
    """The batch at hand, in columns with one element a packet."""

    def __init__(self, packets: PacketBatch, segments: SegmentBatch) -> None:
        n = len(packets)
        self.packets = packets
        self.segments = segments
        self.first = packets.number
        at = segments.number - packets.number
        self.row = np.full(n, -1, np.int64)
        self.row[at] = np.arange(len(at))
        self.ip, kind = network_headers(
            packets.data, packets.link, packets.offset, packets.offset + packets.captured
        )
        self.kind = kind
        self.length = np.zeros(n, np.int64)
        self.length[at] = segments.length
        self.flags = np.zeros(n, np.uint8)
        self.flags[at] = segments.flags
        self.seq = np.zeros(n, np.int64)
        self.seq[at] = segments.seq
        self.direction = np.full(n, -1, np.int64)
        quiet = (segments.flags == ACK) & (segments.length == 0) & (segments.window != 0)
        self.quiet = np.zeros(n, np.bool_)
        self.quiet[at] = quiet
        self.bulk = np.zeros(n, np.bool_)
        self.pieces: dict[int, list[Piece]] = {}

    def header(self, i: int) -> Header:
        """Headers of a TCP packet."""
        packets, segments, row = self.packets, self.segments, int(self.row[i])
        start, payload = int(packets.offset[i]), int(segments.payload[row])
        raw = packets.data[start:payload].tobytes()
        ports = int(segments.sport[row]), int(segments.dport[row])
        return Header(raw, int(self.ip[i]) - start, find_tcp(raw, int(segments.seq[row]), ports))


def sequence_number(connection: Connection, side: int, offset: int) -> int:
    """Sequence number of a stream offset."""
    return ((connection.sides[side].base or 0) + offset) & 0xFFFFFFFF


def endpoints_of(key: FlowKey) -> tuple[object, object]:
    """Address and port of both ends, as connections give them."""
    ends = Flow(key, 0).endpoints
    return ends[0], ends[1]


def peek(spans: list[Span], offset: int, size: int) -> bytes:
    """Bytes at a stream offset that lie in one piece; fewer, or none, if they do not."""
    for span in spans:
        if span.start <= offset < span.end:
            k = int(np.searchsorted(span.piece_end, offset, "right"))
            start = int(span.piece_end[k - 1]) if k else span.start
            have = min(size, int(span.have[k]) - (offset - start))
            at = int(span.source[k]) + offset - start
            return span.data[at : at + max(have, 0)].tobytes()
    return b""

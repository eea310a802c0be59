"""Segments for the tests of the TCP layer: written by hand, cut into batches, read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import pairwise

import numpy as np

from rpcwire.capture.segments import ACK, SegmentBatch
from rpcwire.tcp import Assembler, Connection, Delivery, Limits, Span

MS = 1_000_000
CLIENT = ("10.0.0.1", 40000)
SERVER = ("10.0.0.2", 50052)


@dataclass(frozen=True)
class Segment:
    """One segment; `length` defaults to what `payload` holds."""

    src: tuple[str, int]
    dst: tuple[str, int]
    seq: int
    ack: int = 0
    payload: bytes = b""
    flags: int = ACK
    length: int | None = None
    time_ns: int | None = None
    window: int = 500


def up(seq: int, payload: bytes = b"", ack: int = 0, **more: object) -> Segment:
    return replace(Segment(CLIENT, SERVER, seq % 2**32, ack % 2**32, payload), **more)


def down(seq: int, payload: bytes = b"", ack: int = 0, **more: object) -> Segment:
    return replace(Segment(SERVER, CLIENT, seq % 2**32, ack % 2**32, payload), **more)


def _halves(address: str) -> tuple[int, int]:
    parsed = ip_address(address)
    number = int(parsed) if parsed.version == 6 else 0xFFFF << 32 | int(parsed)
    return number >> 64, number & (2**64 - 1)


def batch(segments: Sequence[Segment], first: int = 1) -> SegmentBatch:
    """One batch; packet numbers count from `first`, a packet every 10 µs."""
    data = b"".join(s.payload for s in segments)
    captured = np.array([len(s.payload) for s in segments], np.int64)
    number = np.arange(first, first + len(segments), dtype=np.int64)
    return SegmentBatch(
        data=np.frombuffer(data, np.uint8),
        number=number,
        file=np.zeros(len(segments), np.int16),
        time_ns=np.array(
            [n * 10_000 if s.time_ns is None else s.time_ns
             for n, s in zip(number.tolist(), segments, strict=True)], np.int64,
        ),
        src=np.array([_halves(s.src[0]) for s in segments], np.uint64).reshape(-1, 2),
        dst=np.array([_halves(s.dst[0]) for s in segments], np.uint64).reshape(-1, 2),
        sport=np.array([s.src[1] for s in segments], np.uint16),
        dport=np.array([s.dst[1] for s in segments], np.uint16),
        seq=np.array([s.seq for s in segments], np.uint32),
        ack=np.array([s.ack for s in segments], np.uint32),
        flags=np.array([s.flags for s in segments], np.uint8),
        window=np.array([s.window for s in segments], np.uint16),
        payload=np.cumsum(captured) - captured,
        captured=captured,
        length=np.array(
            [len(s.payload) if s.length is None else s.length for s in segments], np.int64
        ),
        last_number=first + len(segments) - 1,
    )  # fmt: skip


def deliveries(
    segments: Sequence[Segment], cuts: Iterable[int] = (), limits: Limits | None = None
) -> list[Delivery]:
    """Everything an assembler makes of the segments, cut into batches before the given ones.

    The buffer of a batch is overwritten once it was used, as a reader may do.
    """
    assembler = Assembler(limits=limits)
    bounds = [0, *sorted(set(cuts)), len(segments)]
    found = []
    for i, j in pairwise(bounds):
        part = batch(segments[i:j], i + 1)
        part.data = part.data.copy()
        for delivery in assembler.feed(part):
            for spans in delivery.spans:
                for span in spans:
                    span.data = span.data.copy()
            found.append(delivery)
        part.data[:] = 0xEE
    return found + assembler.finish()


@dataclass
class Piece:
    """A piece as the tests compare it: `b"?"` for each byte cut, None when lost."""

    start: int
    end: int
    data: bytes | None
    number: int
    time_ns: int
    known: int


def pieces(spans: Iterable[Span]) -> list[Piece]:
    """The pieces of spans, which must continue one another."""
    found: list[Piece] = []
    at = 0
    for span in spans:
        assert span.start == at
        assert span.known is not None
        assert span.end == span.piece_end[-1]
        for k, end in enumerate(span.piece_end.tolist()):
            assert end > at
            have = int(span.have[k])
            source = int(span.source[k])
            data = span.data[source : source + have].tobytes()
            assert len(data) == have
            lost = bool(span.lost[k])
            found.append(
                Piece(
                    at, end, None if lost else data + b"?" * (end - at - have),
                    int(span.number[k]), int(span.time_ns[k]), int(span.known[k]),
                )
            )  # fmt: skip
            at = end
    return found


@dataclass
class Stream:
    """One connection, with all its pieces."""

    connection: Connection
    sides: tuple[list[Piece], list[Piece]]
    closed: bool

    def bytes(self, side: int) -> bytes:
        """The stream, "-" for each missing byte and "?" for each cut one."""
        return b"".join(b"-" * (p.end - p.start) if p.data is None else p.data
                        for p in self.sides[side])  # fmt: skip


def streams(found: Iterable[Delivery]) -> list[Stream]:
    """Deliveries put together by connection."""
    spans: dict[int, tuple[Connection, tuple[list[Span], list[Span]], list[bool]]] = {}
    for delivery in found:
        connection = delivery.connection
        _, sides, closed = spans.setdefault(connection.id, (connection, ([], []), []))
        assert not any(closed), "a delivery after the last one"
        closed.append(delivery.closed)
        for side, more in zip(sides, delivery.spans, strict=True):
            side.extend(more)
    result = []
    for connection, sides, closed in sorted(spans.values(), key=lambda x: x[0].id):
        both = (pieces(sides[0]), pieces(sides[1]))
        for side in (0, 1):
            known = [p.known for p in both[side]]
            assert known == sorted(known)
        result.append(Stream(connection, both, any(closed)))
    return result


def read(
    segments: Sequence[Segment], cuts: Iterable[int] = (), limits: Limits | None = None
) -> list[Stream]:
    """The streams of the segments."""
    return streams(deliveries(segments, cuts, limits))

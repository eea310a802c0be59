"""Packets on their way into a slim file, in the order in which they were captured."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rpcwire.record.headers import Header
from rpcwire.record.stream import Stream

#: (time_ns, link type, bytes, bytes on the wire, where the IP header begins or -1).
Write = Callable[[int, int, bytes, int, int], None]


@dataclass(slots=True)
class Piece:
    """What a packet added to a stream.

    Attributes:
        start, end: stream offsets.
        at: index in the packet's payload of the first byte.
        have: bytes of it that were captured.
    """

    stream: Stream
    start: int
    end: int
    at: int
    have: int


@dataclass(slots=True)
class Held:
    """A packet with payload of which it is not yet known what is kept.

    Attributes:
        header: link, IP and TCP header.
        payload: as captured.
        length: payload bytes on the wire. wire: bytes of the whole packet on the wire.
        placed: `pieces` is complete. since_ns: capture time.
    """

    time_ns: int
    link: int
    header: Header
    payload: bytes
    length: int
    wire: int
    pieces: list[Piece] = field(default_factory=list)
    placed: bool = True

    @property
    def decided(self) -> bool:
        """Whether it is known of every byte if it is kept."""
        return self.placed and all(p.end <= p.stream.resolved for p in self.pieces)

    def records(self) -> list[tuple[bytes, int]]:
        """The packet as (bytes, bytes on the wire), cut in segments where kept bytes begin."""
        kept = self._kept()
        if not kept or (len(kept) == 1 and kept[0][0] == 0):
            data = kept[0][1] if kept else b""
            return [(self.header.raw + data, self.wire)]
        starts = [at for at, _ in kept]
        if starts[0]:
            kept.insert(0, (0, b""))
            starts.insert(0, 0)
        ends = [*starts[1:], self.length]
        out = []
        for (start, data), end in zip(kept, ends, strict=True):
            front = self.header.segment(
                start, end - start, first=start == 0, last=end == self.length
            )
            out.append((front + data, len(front) + end - start))
        return out

    def _kept(self) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for piece in sorted(self.pieces, key=lambda p: p.at):
            stream = piece.stream
            for start, end in stream.kept(piece.start, min(piece.end, piece.start + piece.have)):
                at = piece.at + start - piece.start
                data = stream.patch(start, self.payload[at : at + end - start])
                if not data:
                    continue
                if found and found[-1][0] + len(found[-1][1]) == at:
                    found[-1] = (found[-1][0], found[-1][1] + data)
                else:
                    found.append((at, data))
        return found


@dataclass(slots=True)
class Ready:
    """A record as it will be written."""

    time_ns: int
    link: int
    data: bytes
    wire: int
    ip: int


class Outbox:
    """A queue whose front is written as soon as it is decided.

    Args:
        write: writes a record.
        most: payload bytes held at most; beyond it the oldest is written without what is
            undecided.

    Attributes:
        held: payload bytes that wait.
        hurried: packets that had to be written before they were decided.
    """

    def __init__(self, write: Write, most: int) -> None:
        self._write = write
        self._most = most
        self._queue: deque[Held | Ready] = deque()
        self.held = 0
        self.hurried = 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._queue

    def ready(self, time_ns: int, link: int, data: bytes, wire: int, ip: int) -> None:
        """Take a record that is decided."""
        if self._queue:
            self._queue.append(Ready(time_ns, link, data, wire, ip))
        else:
            self._write(time_ns, link, data, wire, ip)

    def hold(self, packet: Held) -> None:
        """Take a packet that may not be decided yet."""
        if not self._queue and packet.decided:
            self._release(packet)
            return
        self._queue.append(packet)
        self.held += len(packet.payload)
        while self.held > self._most and self._queue:
            self._pop()

    def flush(self, *, everything: bool = False) -> None:
        """Write what is decided, or all there is."""
        while self._queue:
            front = self._queue[0]
            if isinstance(front, Held) and not (everything or front.decided):
                break
            self._pop()

    def _pop(self) -> None:
        front = self._queue.popleft()
        if isinstance(front, Ready):
            self._write(front.time_ns, front.link, front.data, front.wire, front.ip)
            return
        self.held -= len(front.payload)
        self.hurried += not front.decided
        self._release(front)

    def _release(self, packet: Held) -> None:
        for data, wire in packet.records():
            self._write(packet.time_ns, packet.link, data, wire, packet.header.ip)

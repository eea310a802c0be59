"""Cuts one direction of a connection into frames, from the headers alone.

A reader is in one of three states. In step: a header stands at `position`. Inside a frame: its
payload is kept as far as somebody may want it and skipped by arithmetic beyond. Out of step: a
hole hid a header, or what stood there cannot be one; the spans are kept until an offset is found
from where the stream makes sense again.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rpcwire.ggml.credible import (
    LEAST,
    MOST,
    MOST_BYTES,
    MOST_GRAPH,
    Verdict,
    fitting,
    header_offsets,
    judge,
    piece_offsets,
)
from rpcwire.ggml.frame import DOWN, UP, Frame
from rpcwire.ggml.tape import LoadedSpan, Packet, Tape
from rpcwire.ggml.versions import (
    DIALECTS,
    HELLO_ID,
    RDMA_READY,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    Dialect,
)

if TYPE_CHECKING:
    from rpcwire.ggml.stream import RpcConnection
    from rpcwire.tcp.span import Span

HEAD_LIMIT = 380  #: payload bytes kept of every frame
CONTENT_LIMIT = 64 << 10  #: bytes of tensor data kept whole
_KEEP_WHOLE = CONTENT_LIMIT + HEAD_LIMIT
#: Until this many bytes went by every offset is searched for a header, then only those where a
#: packet's payload begins: traffic that is something else costs little, and a capture that
#: begins within a gigabyte of weights still comes into step at its end.
SEARCH_ALL = 256 << 10
_FIRST_WINDOW, _LAST_WINDOW = 4 << 10, 256 << 10
_PIECES = 256  #: pieces in which a response is looked for at a time

_REQUEST = struct.Struct("<BQ")
_RESPONSE = struct.Struct("<Q")

#: Id of the pseudo-command RDMA_SYNC.
SYNC_ID = -2
#: Payload bytes of the answers that may come first after HELLO's.
FIRST_RESPONSES = frozenset(
    s.response
    for d in DIALECTS.values()
    for s in d.shapes.values()
    if s.fixed >= 0 and s.tensor_at < 0 and s.answered
)

#: Command ids whose payload is a graph in some dialect.
_GRAPHS = frozenset(i for d in DIALECTS.values() for i, s in d.shapes.items() if s.is_graph)


def _kept(command: int, size: int) -> int:
    """Payload bytes of a request or response (command -1) that are worth keeping."""
    if size <= _KEEP_WHOLE or (command in _GRAPHS and size <= MOST_GRAPH):
        return size
    return HEAD_LIMIT


@dataclass(slots=True)
class Gap:
    """A stretch that could not be decoded.

    Attributes:
        start, end: stream offsets.
        number, file: of the packet with its first byte.
        lost: key of the packet at which the stream fell out of step.
        key: of the packet by which its end was known.
    """

    start: int
    end: int
    number: int
    file: int
    lost: int
    key: int


@dataclass(slots=True)
class Raw:
    """A frame as cut out, not yet understood.

    Attributes:
        frame: with everything that its header and packets tell.
        command: id of a request, -1 for a response.
        payload: its first bytes, whole if they were kept and captured.
        first, last: keys of the packets with its first and its last byte.
        key: of the packet by which it was known.
    """

    frame: Frame
    command: int
    payload: bytes
    first: int
    last: int
    key: int


class _Open:
    """A frame whose end has not been reached."""

    __slots__ = ("absent", "buffer", "command", "end", "holed", "need", "packet", "start")

    def __init__(self, start: int, need: int, absent: tuple[int, int], packet: Packet) -> None:
        self.start = start
        self.need = need
        self.absent = absent
        self.packet = packet
        self.buffer = bytearray()
        self.command = -1
        self.end = -1
        self.holed = False


class Reader:
    """One direction. `add` spans, `run`, then collect `out`; `finish` at the end.

    Attributes:
        out: frames and gaps in stream order, for the owner to take.
        tape: the spans that are still needed.
        position: stream offset up to which all is accounted for.
        searching: True while out of step.
        undecoded: bytes in gaps so far.
    """

    def __init__(self, owner: RpcConnection, direction: int) -> None:
        self.owner = owner
        self.direction = direction
        self.tape = Tape()
        self.out: deque[Raw | Gap] = deque()
        self.position = 0
        self.searching = False
        self.undecoded = 0
        self.floor = 0
        self.dialects: tuple[Dialect, ...] = tuple(DIALECTS.values())
        self._header = REQUEST_HEADER if direction == UP else RESPONSE_HEADER
        self._open: _Open | None = None
        self._lost_at = 0
        self._lost = Packet(0, 0, 0, 0, 0)
        self._candidates: deque[int] = deque()
        self._scanned = 0  # up to this offset candidates were looked for
        self._stretch = _FIRST_WINDOW  # bytes to look through next
        self._finished = False
        self._cut = 0  # becomes 1 with the first frame
        self._after_hello = False
        self.paused = False

    # -- input -----------------------------------------------------------------------------

    def add(self, span: Span) -> None:
        """Take in the next span of the stream."""
        first = not self.tape.started
        loaded = self.tape.add(span)
        if loaded is not None and first:
            self.position = loaded.start
            if self.searching:
                self._lose(loaded.start)

    @property
    def wanted_from(self) -> int:
        """Stream offset before which no further byte is of interest."""
        o = self._open
        if o is not None and (o.holed or len(o.buffer) >= o.need):
            return o.end
        return self.position

    def lose(self) -> None:
        """Start out of step: the stream's beginning was not captured."""
        self.searching = True
        if self.tape.started:
            self._lose(self.position)

    def run(self) -> None:
        """Cut what is on the tape."""
        self.paused = False
        while self.position < self.tape.end or (self.searching and self._candidates):
            if self.paused:
                break
            if self._after_hello:
                if not self._read_sync():
                    break
            elif self.searching:
                if not self._search():
                    break
                continue
            found = self.tape.locate(self.position)
            if found is None:  # never: the tape is dropped only behind `position`
                break
            self._read(*found)
        if not self.searching:
            o = self._open
            # Should the header turn out not to be one, the search begins at its first byte.
            self.tape.drop(o.start if o is not None and o.end < 0 else self.position)

    def finish(self) -> None:
        """Nothing more will come: close what is open."""
        self._finished = True
        self.run()
        o = self._open
        end = self.tape.end
        if o is not None:
            self._open = None
            if o.end < 0:
                self._gap(o.start, end)
            else:
                self._emit_open(o, end)
        elif self.searching and end > self._lost_at:
            self._gap(self._lost_at, end)
        self.searching = False
        self.position = end
        self.tape.drop(end)

    def finish_search(self) -> None:
        """Nothing more will come; judge candidates by what is there."""
        self._finished = True

    def shorten(self, most: int) -> None:
        """Forget the oldest spans when more than `most` stream bytes are held."""
        while len(self.tape.spans) > 1 and self.tape.end - self.tape.spans[0].start > most:
            self.tape.drop(self.tape.spans[0].end)

    # -- in step ---------------------------------------------------------------------------

    def _read(self, span: LoadedSpan, k: int) -> None:
        """Read on in one span from `position`, which lies in its piece k."""
        while self.position < span.end:
            if self._open is None:
                k = self._read_whole(span, k)
                if self.position >= span.end or self._after_hello:
                    return
                self._begin(span, k)
            self._read_open(span)
            if self.searching or self.paused or self._after_hello:
                return
            if self.position < span.end:
                k = span.piece(self.position, k)

    def _read_whole(self, span: LoadedSpan, k: int) -> int:  # noqa: PLR0912, PLR0915 - one loop
        """Cut frames as long as they lie wholly captured within the span; the fast path."""
        up = self.direction == UP
        header = self._header
        ends, keys, times = span.ends, span.key, span.time_ns
        numbers, files, completed = span.number, span.file, span.completed
        unpack = _REQUEST.unpack_from if up else _RESPONSE.unpack_from
        out, owner, direction, floor = self.out, self.owner, self.direction, self.floor
        position = base = self.position
        window = b""
        command = -1
        limit = _FIRST_WINDOW
        last = len(ends) - 1
        while True:
            at = position - base
            if len(window) - at < header:
                if position >= span.end:
                    break
                window = span.window(position, limit, k)
                limit = min(limit * 2, _LAST_WINDOW)
                base, at = position, 0
                if len(window) < header:
                    break
            if up:
                command, size = unpack(window, at)
                if not LEAST[command] <= size <= MOST[command]:
                    break
            else:
                (size,) = unpack(window, at)
                if size > MOST_BYTES:
                    break
            total = header + size
            if at + total > len(window):
                if _kept(command, size) < size or position + total > span.end:
                    break
                window = span.window(position, max(total, limit), k)
                base, at = position, 0
                if total > len(window):
                    break
            end = position + total
            first, number, file, first_ns = keys[k], numbers[k], files[k], times[k]
            while ends[k] < end:
                k += 1
            key = keys[k]
            frame = Frame(
                owner,
                direction,
                "",
                number,
                file,
                first_ns,
                times[k],
                completed[k],
                position,
                total,
                total,
            )
            payload = window[at + header : at + total]
            out.append(Raw(frame, command, payload, first, key, key if key > floor else floor))
            position = end
            if ends[k] == end and k < last:
                k += 1
            if self._cut == 0:
                self._count_first(command, payload)
                if self._after_hello:
                    break
        self.position = position
        return k

    def _begin(self, span: LoadedSpan, k: int) -> None:
        """Open the frame that begins at `position` in piece k."""
        at = self.position
        self._open = _Open(at, self._header, self.tape.absent(at), span.packet(k))

    def _read_open(self, span: LoadedSpan) -> None:
        """Read on in the open frame: header, the part of the payload to keep, the rest."""
        o = self._open
        assert o is not None
        while self.position < span.end:
            short = o.need - len(o.buffer)
            if short > 0 and not o.holed:
                k = span.piece(self.position)
                got = span.window(self.position, short, k)[:short]
                o.buffer += got
                self.position += len(got)
                if not got:
                    if o.end < 0 and not self._header_hidden(o, span, k):
                        if not self.paused:
                            self._lose(o.start)
                        return
                    o.holed = True
                elif len(o.buffer) == o.need and o.end < 0 and not self._header_read(o):
                    self._lose(o.start)
                    return
                if o.end != self.position:
                    continue
            self.position = min(o.end, span.end)
            if self.position == o.end:
                self._open = None
                self._emit_open(o, o.end)
                return

    def _header_read(self, o: _Open) -> bool:
        """The header is complete: how long is the frame, how much of it is kept."""
        size: int
        if self.direction == UP:
            o.command, size = _REQUEST.unpack(o.buffer)
            credible = LEAST[o.command] <= size <= MOST[o.command]
        else:
            (size,) = _RESPONSE.unpack(o.buffer)
            credible = size <= MOST_BYTES
        o.end = o.start + self._header + size
        o.need = self._header + _kept(o.command, size)
        return credible

    def _header_hidden(self, o: _Open, span: LoadedSpan, k: int) -> bool:
        """A gap begins before the header is complete; can its length be known all the same?"""
        return False

    def _emit_open(self, o: _Open, end: int) -> None:
        """Hand on a frame that was read piecemeal, up to `end`."""
        last = self.tape.packet(end - 1)
        missing, cut = self.tape.absent(end)
        frame = Frame(
            self.owner,
            self.direction,
            "",
            o.packet.number,
            o.packet.file,
            o.packet.time_ns,
            last.time_ns,
            last.completed,
            o.start,
            o.end - o.start,
            end - o.start,
            missing - o.absent[0],
            cut - o.absent[1],
        )
        payload = bytes(o.buffer[self._header :])
        if self._cut == 0:
            self._count_first(o.command, payload)
        key = last.key
        self.out.append(Raw(frame, o.command, payload, o.packet.key, key, max(key, self.floor)))

    # -- the byte after HELLO --------------------------------------------------------------

    def _count_first(self, command: int, payload: bytes) -> None:
        """The first frame was cut; if it offers RDMA a byte outside all framing may follow."""
        self._cut = 1
        if self.direction == UP:
            self._after_hello = command == HELLO_ID and len(payload) == 24 and any(payload)
        else:
            self._after_hello = len(payload) == 28 and any(payload[4:])

    def _read_sync(self) -> bool:
        """Cut the byte that Apple builds exchange after HELLO, if it is there; False to wait."""
        got, more = self.tape.read(self.position, self._header + 1)
        undecided = len(got) <= self._header and more and not self._finished
        if got[:1] == bytes([RDMA_READY]):
            is_sync = True
        elif got[:1] == b"\0" and undecided:
            return False
        elif got[:1] == b"\0" and len(got) > self._header:
            is_sync = not self._plain(got[:-1]) and self._plain(got[1:])
        elif not got and undecided:
            return False
        else:
            is_sync = False
        self._after_hello = False
        if is_sync:
            o = _Open(
                self.position, 1, self.tape.absent(self.position), self.tape.packet(self.position)
            )
            o.end = self.position + 1
            o.command = SYNC_ID
            self.position += 1
            self._emit_open(o, o.end)
        return True

    def _plain(self, header: bytes) -> bool:
        """Whether a header is one that can follow HELLO."""
        if self.direction == DOWN:
            return int.from_bytes(header, "little") in FIRST_RESPONSES
        size = int.from_bytes(header[1:], "little")
        shapes = [d.shapes.get(header[0]) for d in self.dialects]
        return any(s is not None and fitting(s, size) for s in shapes)

    # -- out of step -----------------------------------------------------------------------

    def _lose(self, offset: int) -> None:
        """No frame begins at `offset`: search from there."""
        self._open = None
        self.searching = True
        self.position = self._lost_at = self._scanned = offset
        self._stretch = _FIRST_WINDOW
        self._candidates.clear()
        self._lost = self.tape.packet(offset)

    @property
    def lost_key(self) -> int:
        """Key of the packet at which the reader fell out of step."""
        return self._lost.key

    def _scan(self, span: LoadedSpan) -> list[int]:
        """Offsets where a header may stand, in the next stretch of a span; moves `_scanned`."""
        start = max(self._scanned, span.start)
        if start - self._lost_at > SEARCH_ALL and not self.owner.recognised:
            self._scanned = span.end
            return piece_offsets(span, start)
        before = b""
        for n in range(min(REQUEST_HEADER - 1, start - self._lost_at), 0, -1):
            before, _ = self.tape.read(start - n, n)
            if len(before) == n:
                break
        else:
            before = b""
        self._scanned = min(span.end, start + self._stretch)
        self._stretch = min(2 * self._stretch, _LAST_WINDOW)
        return header_offsets(span, start, self._scanned, before)

    def _accepts(self, offset: int) -> tuple[Verdict, int]:
        """Whether to go on from `offset`; see credible.judge."""
        return judge(self.tape, offset, self.dialects, self._finished)

    def _search(self) -> bool:
        """Go on searching; False when more must come first, or nothing is left."""
        while True:
            while self._candidates:
                offset = self._candidates[0]
                verdict, seen = self._accepts(offset)
                if verdict is Verdict.WAIT:
                    self.tape.drop(offset)
                    return False
                self._candidates.popleft()
                if verdict is Verdict.YES:
                    self._found(offset, seen)
                    return True
            found = self.tape.locate(self._scanned)
            if found is None:
                break
            low = self._scanned - REQUEST_HEADER + 1
            self._candidates.extend(o for o in self._scan(found[0]) if o >= low)
        self.position = self._scanned
        self.tape.drop(self._scanned - REQUEST_HEADER + 1)
        return False

    def _found(self, offset: int, seen: int) -> None:
        """The stream makes sense again from `offset`, as the bytes up to `seen` show."""
        self.floor = max(self.floor, self.tape.key_at(seen - 1))
        self._gap(self._lost_at, offset)
        self.searching = False
        self.position = offset
        self._candidates.clear()
        self.tape.drop(offset)

    def _gap(self, start: int, end: int) -> None:
        """Record a stretch that stays undecoded."""
        if end > start:
            self.undecoded += end - start
            lost = self._lost
            key = max(self.floor, lost.key)
            self.out.append(Gap(start, end, lost.number, lost.file, lost.key, key))


class RequestReader(Reader):
    """The direction from client to worker."""

    def __init__(self, owner: RpcConnection) -> None:
        super().__init__(owner, UP)


class ResponseReader(Reader):
    """The direction from worker to client, which needs to know what was asked.

    While in step its frames need no help. Where a header is hidden, the pairing may know how
    long the next response is; out of step, a response is looked for where a packet begins, since
    a worker only sends when it was asked and nothing else is under way.
    """

    def __init__(self, owner: RpcConnection) -> None:
        super().__init__(owner, DOWN)

    def _header_hidden(self, o: _Open, span: LoadedSpan, k: int) -> bool:
        if self.owner.blocked(span.key[k]):
            self.paused = True
            return False
        size = self.owner.expected_response(span.key[k])
        if size is None:
            return False
        o.end = o.start + self._header + size
        o.need = 0
        return True

    def _scan(self, span: LoadedSpan) -> list[int]:
        start = self._scanned
        first = span.piece(start)
        stop = min(first + _PIECES, len(span.ends))
        self._scanned = span.ends[stop - 1]
        return [
            offset
            for k in range(first, stop)
            if span.have[k] >= self._header and (offset := span.piece_start(k)) >= start
        ]

    def _accepts(self, offset: int) -> tuple[Verdict, int]:
        header, more = self.tape.read(offset, self._header)
        if len(header) < self._header:
            wait = more and not self._finished
            return (Verdict.WAIT if wait else Verdict.NO), offset + len(header)
        if self.owner.blocked(self.tape.key_at(offset)):
            return Verdict.WAIT, offset
        size = int.from_bytes(header, "little")
        credible = self.owner.credible_response(self.tape.key_at(offset), size)
        return (Verdict.YES if credible else Verdict.NO), offset + self._header

"""Cuts one direction of a connection into frames, from the headers alone.

A reader is in one of three states. In step: a header stands at `position`. Inside a frame: its
payload is kept as far as somebody may want it and skipped by arithmetic beyond. Out of step: a
hole hid a header, or what stood there cannot be one; the spans are kept until an offset is found
from where the stream makes sense again.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from rpcwire.ggml.credible import LEAST, MOST, MOST_BYTES, fitting
from rpcwire.ggml.frame import DOWN, UP, Frame
from rpcwire.ggml.raw import SYNC_ID, Gap, Hidden, Raw, kept
from rpcwire.ggml.search import RequestSearch, ResponseSearch, Search
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

_FIRST_WINDOW, _LAST_WINDOW = 4 << 10, 256 << 10

_REQUEST = struct.Struct("<BQ")
_RESPONSE = struct.Struct("<Q")

#: Payload bytes of the answers that may come first after HELLO's.
FIRST_RESPONSES = frozenset(
    s.response
    for d in DIALECTS.values()
    for s in d.shapes.values()
    if s.fixed >= 0 and s.tensor_at < 0 and s.answered
)


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
    """

    def __init__(self, owner: RpcConnection, direction: int) -> None:
        self.owner = owner
        self.direction = direction
        self.tape = Tape()
        self.out: deque[Raw | Gap] = deque()
        self.position = 0
        self.searching = False
        self.floor = 0
        self.dialects: tuple[Dialect, ...] = tuple(DIALECTS.values())
        self._header = REQUEST_HEADER if direction == UP else RESPONSE_HEADER
        self._open: _Open | None = None
        self._search: Search = (RequestSearch if direction == UP else ResponseSearch)(
            owner, self.tape
        )
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
                self._lose(loaded.start, after_frame=False)

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
            self._lose(self.position, after_frame=False)

    def run(self) -> None:
        """Cut what is on the tape."""
        self.paused = False
        while self.position < self.tape.end or (self.searching and self._search.pending):
            if self.paused:
                break
            if self._after_hello:
                if not self._read_sync():
                    break
            elif self.searching:
                if not self._look():
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
        elif self.searching and end > self._search.lost_at:
            self._gap(self._search.lost_at, end)
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
                if kept(command, size) < size or position + total > span.end:
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
        o.need = self._header + kept(o.command, size)
        return credible

    def _header_hidden(self, o: _Open, span: LoadedSpan, k: int) -> bool:
        """A gap begins before the header is complete; can its length be known all the same?"""
        return False

    def _emit_open(self, o: _Open, end: int) -> None:
        """Hand on a frame that was read piecemeal, up to `end`."""
        raw = self._close(o, end)
        if self._cut == 0:
            self._count_first(raw.command, raw.payload)
        self.out.append(raw)

    def _close(self, o: _Open, end: int) -> Raw:
        """The frame that `o` is when it goes up to `end`."""
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
        key = last.key
        return Raw(frame, o.command, payload, o.packet.key, key, max(key, self.floor))

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

    def _lose(self, offset: int, *, after_frame: bool = True) -> None:
        """No header can be read at `offset`: search from there."""
        self._open = None
        self.searching = True
        self.position = offset
        self._search.begin(offset, after_frame=after_frame)

    @property
    def lost_key(self) -> int:
        """Key of the packet at which the reader fell out of step."""
        return self._search.lost.key

    def _look(self) -> bool:
        """Go on searching; False when more must come first, or nothing is left."""
        search = self._search
        found = search.step(self.dialects, self._finished)
        if found is None:
            self.position = search.position
            return False
        offset, seen = found
        self.floor = max(self.floor, self.tape.key_at(seen - 1))
        self._gap(search.lost_at, offset, search.after_frame)
        self.searching = False
        self.position = offset
        self.tape.drop(offset)
        return True

    def _gap(self, start: int, end: int, one_frame: bool = False) -> None:
        """Record a stretch that stays undecoded, unless it can be told to be one frame."""
        if end <= start:
            return
        lost = self._search.lost
        gap = Gap(start, end, lost.number, lost.file, lost.key, max(self.floor, lost.key))
        if one_frame and end - start >= self._header:
            gap.hidden = self._hidden(start, end)
        self.out.append(gap)

    def _hidden(self, start: int, end: int) -> Hidden:
        """The stretch as one frame."""
        tape, at = self.tape, start + self._header
        header = [tape.read(start + i, 1)[0] for i in range(self._header)]
        o = _Open(start, 0, tape.absent(start), tape.packet(start))
        o.end = end
        o.buffer += bytes(self._header) + tape.read(at, end - at)[0]
        return Hidden(self._close(o, end), tuple(b[0] if b else None for b in header))


class RequestReader(Reader):
    """The direction from client to worker."""

    def __init__(self, owner: RpcConnection) -> None:
        super().__init__(owner, UP)


class ResponseReader(Reader):
    """The direction from worker to client, which needs to know what was asked.

    While in step its frames need no help. Where a header is hidden, the pairing may know how
    long the next response is; out of step, it knows which sizes a response may have.
    """

    def __init__(self, owner: RpcConnection) -> None:
        super().__init__(owner, DOWN)

    def _header_hidden(self, o: _Open, span: LoadedSpan, k: int) -> bool:
        if self.owner.blocked(span.key[k]):
            self.paused = True
            return False
        size = self.owner.expected_response(span.key[k], span.ends[k] - o.start)
        if size is None:
            return False
        o.end = o.start + self._header + size
        o.need = 0
        return True

"""Finds where a stream makes sense again, after a hole hid a header or it was entered late."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rpcwire.ggml.credible import MOST_BYTES, Verdict, header_offsets, judge, piece_offsets
from rpcwire.ggml.tape import LoadedSpan, Packet, Tape
from rpcwire.ggml.versions import REQUEST_HEADER, RESPONSE_HEADER, Dialect

if TYPE_CHECKING:
    from rpcwire.ggml.stream import RpcConnection

#: Until this many bytes went by every offset is searched for a header, then only those where a
#: packet's payload begins: traffic that is something else costs little, and a capture that
#: begins within a gigabyte of weights still comes into step at its end.
SEARCH_ALL = 256 << 10
_FIRST_WINDOW, _LAST_WINDOW = 4 << 10, 256 << 10
_PIECES = 256  #: pieces in which a response is looked for at a time
#: Bytes kept from where the stream fell out of step, to tell afterwards what stood there.
_KEPT = 1 << 20


class Search:
    """Looks at one offset after the other; what it has passed over it forgets.

    Attributes:
        lost_at: stream offset where the search began. lost: the packet there.
        after_frame: a frame ended there, so another one began.
        position: stream offset up to which candidates were looked for.
    """

    def __init__(self, owner: RpcConnection, tape: Tape) -> None:
        self._owner = owner
        self._tape = tape
        self.lost_at = self.position = 0
        self.lost = Packet(0, 0, 0, 0, 0)
        self.after_frame = False
        self._candidates: deque[int] = deque()
        self._stretch = _FIRST_WINDOW  # bytes to look through next

    @property
    def pending(self) -> bool:
        """Whether some offset waits to be judged."""
        return bool(self._candidates)

    def begin(self, offset: int, *, after_frame: bool) -> None:
        """Search from `offset`, where no header can be read."""
        self.lost_at = self.position = offset
        self.lost = self._tape.packet(offset)
        self.after_frame = after_frame
        self._stretch = _FIRST_WINDOW
        self._candidates.clear()

    def step(self, dialects: tuple[Dialect, ...], final: bool) -> tuple[int, int] | None:
        """Go on with what is at hand.

        Args:
            dialects: those that come into question.
            final: nothing more will come.

        Returns:
            An offset from where the stream makes sense, and the end of the bytes that show it;
            None when there is none yet.
        """
        while True:
            while self._candidates:
                offset = self._candidates[0]
                verdict, seen = self._judge(offset, dialects, final)
                if verdict is Verdict.WAIT:
                    self._forget(offset)
                    return None
                self._candidates.popleft()
                if verdict is Verdict.YES:
                    self._candidates.clear()
                    return offset, seen
            found = self._tape.locate(self.position)
            if found is None:
                break
            low = self.position - REQUEST_HEADER + 1
            self._candidates.extend(o for o in self._scan(found[0]) if o >= low)
        self._forget(self.position - REQUEST_HEADER + 1)
        return None

    def _forget(self, offset: int) -> None:
        if not self.after_frame or self._tape.end - self.lost_at > _KEPT:
            self.after_frame = False
            self._tape.drop(offset)

    def _scan(self, span: LoadedSpan) -> list[int]:
        """Offsets to judge in the next stretch of a span; moves `position`."""
        raise NotImplementedError

    def _judge(
        self, offset: int, dialects: tuple[Dialect, ...], final: bool
    ) -> tuple[Verdict, int]:
        """Whether to go on from `offset`; see credible.judge."""
        raise NotImplementedError


class RequestSearch(Search):
    """For requests, whose headers and tensor records can be told from other bytes."""

    def _scan(self, span: LoadedSpan) -> list[int]:
        start = max(self.position, span.start)
        if start - self.lost_at > SEARCH_ALL and not self._owner.recognised:
            self.position = span.end
            return piece_offsets(span, start)
        before = b""
        for n in range(min(REQUEST_HEADER - 1, start - self.lost_at), 0, -1):
            before, _ = self._tape.read(start - n, n)
            if len(before) == n:
                break
        else:
            before = b""
        self.position = min(span.end, start + self._stretch)
        self._stretch = min(2 * self._stretch, _LAST_WINDOW)
        return header_offsets(span, start, self.position, before)

    def _judge(
        self, offset: int, dialects: tuple[Dialect, ...], final: bool
    ) -> tuple[Verdict, int]:
        return judge(self._tape, offset, dialects, final)


class ResponseSearch(Search):
    """For responses: one is looked for where a packet begins.

    A worker only sends when it was asked and nothing else is under way.
    """

    def _scan(self, span: LoadedSpan) -> list[int]:
        start = self.position
        first = span.piece(start)
        stop = min(first + _PIECES, len(span.ends))
        self.position = span.ends[stop - 1]
        return [
            offset
            for k in range(first, stop)
            if span.have[k] >= RESPONSE_HEADER and (offset := span.piece_start(k)) >= start
        ]

    def _judge(
        self, offset: int, dialects: tuple[Dialect, ...], final: bool
    ) -> tuple[Verdict, int]:
        header, more = self._tape.read(offset, RESPONSE_HEADER)
        if len(header) < RESPONSE_HEADER:
            return (Verdict.WAIT if more and not final else Verdict.NO), offset + len(header)
        key = self._tape.key_at(offset)
        if self._owner.blocked(key):
            return Verdict.WAIT, offset
        packet, size = self._tape.packet(offset), int.from_bytes(header, "little")
        credible = size <= MOST_BYTES and self._owner.credible_response(packet, size)
        return (Verdict.YES if credible else Verdict.NO), offset + RESPONSE_HEADER

"""Which response answers which request.

The protocol pairs strictly in order, and on the wire a client sends nothing more between an
answered request and its response. While nothing was lost, the oldest open request is the one
that is answered. After a gap in either direction, or where it is not known which commands the
dialect answers, the response belongs to the last request before it that can have its size.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rpcwire.ggml.dialect import DialectTracker, Expected, answered_sizes
from rpcwire.ggml.versions import RESPONSE_HEADER

if TYPE_CHECKING:
    from rpcwire.ggml.raw import Raw

#: Open requests (of a capture that lacks the responses) and responses without a request that
#: are remembered.
MOST_OPEN = 1024
MOST_WAITING = 64
_RECENT = 8


#: A response and its request.
Pair = tuple["Raw", "Raw | None"]


@dataclass(slots=True)
class Open:
    """A request that may still be answered.

    Attributes:
        time_ns: when it passed, at the earliest.
        sizes: payload bytes that its response may have. sure: it is answered.
    """

    raw: Raw
    time_ns: int
    sizes: Expected
    sure: bool

    def takes(self, size: int) -> bool:
        """Whether a response of `size` payload bytes can be its."""
        return size in self.sizes or -1 in self.sizes


class Pairing:
    """Open requests and waiting responses of one connection.

    Attributes:
        open: requests that may be answered yet. waiting: responses whose request may come yet,
            which happens where a hole delays it.
        recent: the last requests that should not be answered.
        loose: something was lost, so not every response is the oldest open request's.
        unanswered: requests whose response was lost. orphans: responses whose request was.
    """

    def __init__(self, tracker: DialectTracker, loose: bool) -> None:
        self._tracker = tracker
        self.open: deque[Open] = deque()
        self.waiting: deque[Raw] = deque()
        self.recent: deque[Raw] = deque(maxlen=_RECENT)
        self.loose = loose
        self.unanswered = 0
        self._latest = 0  # time of the request before
        self.orphans = 0

    def unanswerable(self, raw: Raw) -> None:
        """Take in a request that is not answered, while no response waits."""
        self.recent.append(raw)
        self._latest = raw.frame.time_ns

    def request(self, raw: Raw, sizes: Expected, sure: bool) -> list[Pair]:
        """Take in a request; returns the responses that waited for it, or in vain."""
        waited: list[Pair] = []
        # A hole has the time of the packet that proved it, which may be a later one.
        time_ns = self._latest if raw.frame.missing else _time(raw)
        self._latest = _time(raw)
        while self.loose and self.waiting and _time(self.waiting[0]) < time_ns:
            waited.append(self._late(self.waiting.popleft()))
        if not sizes:
            self.recent.append(raw)
            return waited
        entry = Open(raw, time_ns, sizes, sure)
        if self.waiting and not self.loose and sure and entry.takes(_size(self.waiting[0])):
            waited.append((self.waiting.popleft(), raw))
            return waited
        self.open.append(entry)
        if len(self.open) > MOST_OPEN:
            self.open.popleft()
            self.loose = True
        return waited

    def settle(self) -> list[Pair]:
        """No more requests: the responses that still wait."""
        self.loose = True
        waited = [self._late(response) for response in self.waiting]
        self.waiting.clear()
        return waited

    def next_size(self, key: int, acknowledged: int | None) -> int | None:
        """Payload bytes of the response that must come next, where that is certain.

        Args:
            key: of the packet with its first byte.
            acknowledged: where no response was captured, bytes up to which the client confirmed
                the stream next: the end of a response.
        """
        while self.open and not self.loose and self.open[0].raw.last <= key:
            entry = self.open[0]
            if not entry.sure:  # later requests may have told the dialect
                raw = entry.raw
                shape = self._tracker.best.shapes.get(raw.command)
                if shape is not None:
                    entry.sizes, entry.sure = self._tracker.expected(
                        raw.command, shape, raw.payload
                    )
                if not entry.sure and 0 in entry.sizes and acknowledged is not None:
                    answered = acknowledged == RESPONSE_HEADER
                    self._learn(entry, 0 if answered else None)
                    entry.sizes, entry.sure = frozenset((0,) if answered else ()), answered
                if not entry.sizes:
                    self.recent.append(self.open.popleft().raw)
                    continue
            if not entry.sure or len(entry.sizes) != 1:
                return None
            (size,) = entry.sizes
            return size if size >= 0 else None
        return None

    def last_takes(self, key: int, time_ns: int, size: int) -> bool:
        """Whether the last open request before a packet can have a response of this size."""
        for entry in reversed(self.open):
            if entry.raw.last <= key and entry.time_ns <= time_ns:
                return entry.takes(size)
        return False

    def takes(self, time_ns: int, size: int) -> bool:
        """Whether any open request before a moment can have a response of this size."""
        return any(e.time_ns <= time_ns and e.takes(size) for e in self.open)

    def response(self, raw: Raw) -> Pair | None:
        """Take in a response; returns it with its request (None: there is none).

        Returns None while its request may still come.
        """
        size = _size(raw)
        if self.open and not self.loose:
            entry = self.open[0]
            if entry.sure and entry.takes(size):
                self.open.popleft()
                self._learn(entry, size)
                return raw, entry.raw
        request = self._claim(raw, raw.first)
        if request is not None:
            return raw, request
        self.loose |= bool(self.open)
        self.waiting.append(raw)
        if len(self.waiting) > MOST_WAITING:
            self.orphans += 1
            return self.waiting.popleft(), None
        return None

    def _late(self, raw: Raw) -> Pair:
        """A response that waited, with its request now that all before it are there."""
        request = self._claim(raw, None)
        self.orphans += request is None
        return raw, request

    def _claim(self, raw: Raw, key: int | None) -> Raw | None:
        """The last request before a response, and complete at `key`, that can be its.

        The ones before it stay unanswered.

        Responses are told from requests by time: a hole in either direction delays what follows
        it there, but not when it passed.
        """
        size, time_ns = _size(raw), _time(raw)
        for at in range(len(self.open) - 1, -1, -1):
            entry = self.open[at]
            late = key is not None and entry.raw.last > key
            if late or entry.time_ns > time_ns or not entry.takes(size):
                continue
            for _ in range(at):
                skipped = self.open.popleft()
                self.unanswered += skipped.sure
                if not skipped.sure and not self.loose:
                    self._learn(skipped, None)
            self.open.popleft()
            self._learn(entry, size)
            self.loose = False
            return entry.raw
        return self._unexpected(raw, size, key)

    def _unexpected(self, raw: Raw, size: int, key: int | None) -> Raw | None:
        """A response to a command that should have none: what was sent just before it?"""
        for request in reversed(self.recent):
            if (key is None or request.last <= key) and _time(request) <= _time(raw):
                if request.frame.response is None and size in answered_sizes(request.frame.command):
                    self._tracker.learn(
                        request.command, request.frame.command, size, request.payload
                    )
                    return request
                return None
        return None

    def _learn(self, entry: Open, size: int | None) -> None:
        if not entry.sure or len(entry.sizes) > 1:
            raw = entry.raw
            self._tracker.learn(raw.command, raw.frame.command, size, raw.payload)


def _size(raw: Raw) -> int:
    return raw.frame.size - RESPONSE_HEADER


def _time(raw: Raw) -> int:
    return raw.frame.time_ns

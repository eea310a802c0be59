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
    from rpcwire.ggml.framing import Raw

#: Open requests (of a capture that lacks the responses) and responses without a request that
#: are remembered.
MOST_OPEN = 1024
MOST_WAITING = 64
_RECENT = 8


@dataclass(slots=True)
class Open:
    """A request that may still be answered."""

    raw: Raw
    sizes: Expected
    sure: bool

    def takes(self, size: int) -> bool:
        """Whether a response of `size` payload bytes can be its."""
        return size in self.sizes or -1 in self.sizes


class Pairing:
    """Open requests and waiting responses of one connection."""

    def __init__(self, tracker: DialectTracker, loose: bool) -> None:
        self._tracker = tracker
        self.open: deque[Open] = deque()
        self.waiting: deque[Raw] = deque()
        self.recent: deque[Raw] = deque(maxlen=_RECENT)
        self.loose = loose
        self.unanswered = 0  # requests whose response was lost
        self.orphans = 0  # responses whose request was lost

    def request(self, raw: Raw, sizes: Expected, sure: bool) -> Raw | None:
        """Take in a request; returns the response that was waiting for it."""
        if not sizes:
            self.recent.append(raw)
            return None
        entry = Open(raw, sizes, sure)
        if self.waiting and sure and entry.takes(_size(self.waiting[0])):
            return self.waiting.popleft()
        self.open.append(entry)
        if len(self.open) > MOST_OPEN:
            self.open.popleft()
            self.loose = True
        return None

    def gap(self) -> list[Raw]:
        """Something was lost; returns the waiting responses, which nobody will claim."""
        self.loose = True
        orphans = list(self.waiting)
        self.waiting.clear()
        self.orphans += len(orphans)
        return orphans

    def next_size(self, key: int) -> int | None:
        """Payload bytes of the response that must come next, where that is certain."""
        if self.loose or not self.open:
            return None
        entry = self.open[0]
        if not entry.sure or entry.raw.last > key or len(entry.sizes) != 1:
            return None
        (size,) = entry.sizes
        return size if size >= 0 else None

    def last_takes(self, key: int, size: int) -> bool:
        """Whether the last open request before `key` can have a response of this size."""
        for entry in reversed(self.open):
            if entry.raw.last <= key:
                return entry.takes(size)
        return False

    def response(self, raw: Raw) -> Raw | None:
        """The request that a response answers; None if there is none, or none yet."""
        size = _size(raw)
        if self.open and not self.loose:
            entry = self.open[0]
            if entry.sure and entry.takes(size):
                self.open.popleft()
                self._learn(entry, size)
                return entry.raw
        if self.open:
            entry_at = self._last_before(raw.first, size)
            if entry_at >= 0:
                for _ in range(entry_at):
                    skipped = self.open.popleft()
                    self.unanswered += skipped.sure
                    if not skipped.sure and not self.loose:
                        self._learn(skipped, None)
                entry = self.open.popleft()
                self._learn(entry, size)
                self.loose = False
                return entry.raw
        unexpected = self._unexpected(raw, size)
        if unexpected is not None:
            return unexpected
        if not self.loose and not self.open:
            self.waiting.append(raw)
        else:
            self.loose = True
            self.orphans += 1
        return None

    def _last_before(self, key: int, size: int) -> int:
        for at in range(len(self.open) - 1, -1, -1):
            entry = self.open[at]
            if entry.raw.last <= key and entry.takes(size):
                return at
        return -1

    def _unexpected(self, raw: Raw, size: int) -> Raw | None:
        """A response to a command that should have none: what was sent just before it?"""
        for request in reversed(self.recent):
            if request.last <= raw.first:
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

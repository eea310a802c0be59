"""What the relay tells its writer goes through a pipe that must not hold the relay up."""

from __future__ import annotations

import contextlib
import os
import select
from collections import deque
from collections.abc import Callable

from rpcwire.record.events import Kind, encode_header

#: Bytes that wait for the writer at most; beyond it the relay waits, for it must lose nothing.
MOST_WAITING = 512 << 20


class Teller:
    """Writes events to a file descriptor; what it does not take yet waits in memory.

    Args:
        fd: the writer's input; None: nobody listens.
        poll: where `fd` is registered while something waits; call `drain` when it is writable.
        say: called with one line when the writer is gone.
    """

    def __init__(self, fd: int | None, poll: select.poll, say: Callable[[str], None]) -> None:
        self.fd = fd
        self._poll = poll
        self._say = say
        self._backlog: deque[memoryview] = deque()
        self._waiting = 0
        if fd is not None:
            os.set_blocking(fd, False)

    def tell(
        self, kind: Kind, side: int, number: int, time_ns: int, data: bytes | memoryview = b""
    ) -> None:
        """Tell of an event, see events.Event."""
        if self.fd is None:
            return
        header = encode_header(kind, side, number, time_ns, len(data))
        written = 0
        if not self._backlog:
            try:
                written = os.writev(self.fd, (header, data))
            except BlockingIOError:
                written = 0
            except OSError:
                self._deaf()
                return
            if written == len(header) + len(data):
                return
            self._poll.register(self.fd, select.POLLOUT)
        rest = memoryview(b"".join((header, data)))[written:]
        self._backlog.append(rest)
        self._waiting += len(rest)
        if self._waiting > MOST_WAITING:
            self._write_out()
            if self.fd is not None:
                os.set_blocking(self.fd, False)
                self._poll.unregister(self.fd)

    def drain(self) -> None:
        """Write what waits, as far as it goes."""
        if self.fd is None:
            return
        try:
            while self._backlog:
                written = os.write(self.fd, self._backlog[0])
                self._waiting -= written
                if written < len(self._backlog[0]):
                    self._backlog[0] = self._backlog[0][written:]
                    return
                self._backlog.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._deaf()
            return
        self._poll.unregister(self.fd)

    def finish(self) -> None:
        """Write all that waits, however long it takes."""
        if self.fd is not None:
            self._write_out()

    def _write_out(self) -> None:
        assert self.fd is not None
        os.set_blocking(self.fd, True)
        while self._backlog:
            data = self._backlog.popleft()
            while len(data):
                try:
                    data = data[os.write(self.fd, data) :]
                except OSError:
                    self._deaf()
                    return
        self._waiting = 0

    def _deaf(self) -> None:
        """The writer is gone: go on without a record."""
        fd, self.fd = self.fd, None
        if fd is not None:
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)
        self._backlog.clear()
        self._say("the record has ended early; the relay goes on without it")

"""A queue of bytes between a source that must not wait and a writer that may be slow.

Bytes stay in memory up to a limit, beyond it they go through an unnamed file, so that nothing is
lost while the writer catches up. When that fails too (disk full), the source waits.
"""

from __future__ import annotations

import sys
import tempfile
from collections import deque
from pathlib import Path
from threading import Condition
from typing import IO

MOST_MEMORY = 256 << 20
_CHUNK = 4 << 20
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class Spool:
    """Put on one thread, get on another.

    Args:
        folder: where the file is made when memory does not suffice.
        most: bytes kept in memory.

    Attributes:
        spilled: bytes that went through the file so far.
        waited: times the source had to wait.
    """

    def __init__(self, folder: Path | None = None, most: int = MOST_MEMORY) -> None:
        self._folder = folder
        self._most = most
        self._memory: deque[bytes] = deque()
        self._in_memory = 0
        self._file: IO[bytes] | None = None
        self._written = self._read = 0
        self._closed = self._abandoned = False
        self._turn = Condition()
        self.spilled = 0
        self.waited = 0

    @property
    def waiting(self) -> int:
        """Bytes that wait to be got."""
        return self._in_memory + self._written - self._read

    def put(self, data: bytes) -> None:
        """Take bytes from the source."""
        with self._turn:
            if self._abandoned:
                return
            spilling = self._written > self._read
            if not spilling and self._in_memory + len(data) <= self._most:
                self._memory.append(data)
                self._in_memory += len(data)
            elif not self._spill(data):
                self.waited += 1
                while self._in_memory >= self._most and not self._closed:
                    self._turn.wait()
                while self._written > self._read and not self._closed:
                    self._turn.wait()
                self._memory.append(data)
                self._in_memory += len(data)
            self._turn.notify_all()

    def close(self) -> None:
        """The source has ended."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()

    def abandon(self) -> None:
        """Nobody gets anything any more; `put` takes no more and does not wait."""
        with self._turn:
            self._closed = True
            self._abandoned = True
            self._memory.clear()
            self._in_memory = self._written = self._read = 0
            if self._file is not None:
                self._file.close()
                self._file = None
            self._turn.notify_all()

    def get(self, timeout: float | None = None) -> bytes | None:
        """Next bytes, b"" when none came in time, None at the end."""
        with self._turn:
            if not self.waiting and not self._closed:
                self._turn.wait(timeout)
            if self._memory:
                data = self._join()
                self._in_memory -= len(data)
            elif self._written > self._read and self._file is not None:
                self._file.seek(self._read)
                data = self._file.read(min(_CHUNK, self._written - self._read))
                self._read += len(data)
                if self._read == self._written:
                    self._file.truncate(0)
                    self._read = self._written = 0
            else:
                return None if self._closed else b""
            self._turn.notify_all()
            return data

    def _join(self) -> bytes:
        """Some of what is in memory as one piece: the decoder is quickest with large ones."""
        parts = [self._memory.popleft()]
        size = len(parts[0])
        while self._memory and size + len(self._memory[0]) <= _CHUNK:
            parts.append(self._memory.popleft())
            size += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _spill(self, data: bytes) -> bool:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as this
                    dir=self._folder, buffering=0
                )
            self._file.seek(self._written)
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            return False
        self._written += len(data)
        self.spilled += len(data)
        return True


def widen_pipe(fd: int) -> None:
    """Make a pipe hold more, where the system can."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            return

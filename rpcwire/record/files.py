"""Files that stay readable whatever happens: they end with a whole block at any time."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

_BUFFER = 256 << 10


class BlockFile:
    """A file that is written in pieces which end with whole blocks.

    When the disk is full the piece that did not fit is taken back. What a file of that name held
    before goes with the first block, not before.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        existed = path.exists()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._new = not existed
        _give_to_caller(self._fd)
        self._buffer = bytearray()
        self._size = 0
        self._failed = False

    def write(self, data: bytes) -> None:
        """Take a block.

        Raises:
            OSError: an earlier one, or this one, could not be written.
        """
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what waits.

        Raises:
            OSError: it could not be written; the file ends before it.
        """
        if not self._buffer or self._failed:
            return
        left = memoryview(bytes(self._buffer))
        size = len(left)
        self._buffer.clear()
        try:
            if not self._size:
                os.truncate(self._fd, 0)
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            self._failed = True
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += size

    def discard(self) -> None:
        """Close; nothing was written: leave everything as it was before."""
        os.close(self._fd)
        if self._new:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write what waits and close.

        Raises:
            OSError: see flush.
        """
        try:
            self.flush()
        finally:
            os.close(self._fd)


def _give_to_caller(fd: int) -> None:
    """Under sudo the file is to belong to whoever called it."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if user.isdigit() and group.isdigit() and os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.fchown(fd, int(user), int(group))


class Ring:
    """The last few of many files: name_00001.pcapng, name_00002.pcapng and so on.

    Args:
        path: gives folder, name and suffix.
        count: files kept.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        self._number = 0
        self._files: deque[Path] = deque()
        self._open: BlockFile | None = None

    @property
    def files(self) -> list[Path]:
        """Those that exist, oldest first."""
        return list(self._files)

    def next(self) -> BlockFile:
        """Close the present file and begin the next one; the oldest goes when there are too many.

        Raises:
            OSError: it cannot be written.
        """
        if self._open is not None:
            self._open.close()
        self._number += 1
        name = f"{self._path.stem}_{self._number:05}{self._path.suffix or '.pcapng'}"
        self._open = BlockFile(self._path.with_name(name))
        self._files.append(self._open.path)
        while len(self._files) > self._count:
            self._files.popleft().unlink(missing_ok=True)
        return self._open

    @property
    def current(self) -> BlockFile:
        """The file that is being written."""
        return self._open or self.next()

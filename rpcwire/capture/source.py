"""The files that captures are read from, opened and read at the speed of the page cache."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.parser import PacketParser, SegmentParser
from rpcwire.capture.segments import SegmentBatch
from rpcwire.errors import CaptureError

# The first reads are small so that the first results come soon.
READ_BYTES = (64 << 10, 1 << 20, 4 << 20)
COMPRESSED_READ_BYTES = 1 << 20
STDIN = "-"
# How long pieces from a pipe are gathered, and the pause that ends it earlier.
GATHER_SECONDS, PAUSE_SECONDS = 0.05, 0.005


@dataclass(slots=True)
class Progress:
    """Bytes of the files read so far.

    Attributes:
        read: bytes read, before decompression.
        total: bytes of all files, 0 when any of them has no size (a pipe).
    """

    read: int = 0
    total: int = 0


class Source:
    """One input: a path, "-" for standard input, or an open binary file.

    Args:
        what: the input.
        file: index of the file among the inputs.
        health: counts and notes are added here.
        progress: bytes read are added here.
    """

    def __init__(
        self, what: str | Path | BinaryIO, file: int, health: CaptureHealth, progress: Progress
    ) -> None:
        self._what = what
        self._progress = progress
        self.file = file
        self.name = _name(what)
        self.parser = SegmentParser(health, self.name, file)

    def size(self) -> int | None:
        """Bytes of the file; None where there is no telling.

        Raises:
            CaptureError: there is no such file, or no right to read it.
        """
        what = self._what
        try:
            if what == STDIN:
                return None
            if isinstance(what, str | Path):
                with open(what, "rb"):
                    pass
                return os.stat(what).st_size or None
            return os.fstat(what.fileno()).st_size or None
        except OSError as error:
            if isinstance(what, str | Path):
                raise _cannot(self.name, error) from error
            return None

    def first_ns(self) -> int | None:
        """Time of the first packet, from a look at the beginning of the file.

        Returns:
            ns since the epoch; None where the file can be read only once, or has no packet.

        Raises:
            CaptureError: the file cannot be opened or is no capture.
        """
        what = self._what
        if what == STDIN or not isinstance(what, str | Path):
            return None
        parser = PacketParser(CaptureHealth(), self.name)
        try:
            with open(what, "rb", buffering=0) as stream:
                while chunk := stream.read(READ_BYTES[0]):
                    for batch in parser.feed(chunk):
                        return int(batch.time_ns[0])
        except OSError as error:
            raise _cannot(self.name, error) from error
        for batch in parser.finish():
            return int(batch.time_ns[0])
        return None

    def batches(self) -> Iterator[SegmentBatch]:
        """Segments of the file, empty batches left out.

        Raises:
            CaptureError: the file cannot be opened or is no capture.
        """
        what = self._what
        try:
            if what == STDIN:
                yield from self._read(sys.stdin.buffer)
            elif isinstance(what, str | Path):
                with open(what, "rb", buffering=0) as stream:
                    yield from self._read(stream)
            else:
                yield from self._read(what)
        except OSError as error:
            raise _cannot(self.name, error) from error

    def _read(self, stream: BinaryIO) -> Iterator[SegmentBatch]:
        sizes = iter(READ_BYTES)
        size = READ_BYTES[0]
        parser = self.parser
        while True:
            size = next(sizes, size)
            if parser.packets.plain:
                got = _fill(stream, parser.packets.space(size, READ_BYTES[0]))
                batches = parser.advance(got)
            else:
                chunk = bytearray(min(size, COMPRESSED_READ_BYTES))
                got = _fill(stream, memoryview(chunk))
                batches = parser.feed(bytes(chunk[:got]))
            if not got:
                break
            self._progress.read += got
            yield from (batch for batch in batches if len(batch))
        yield from (batch for batch in parser.finish() if len(batch))


def _fill(stream: BinaryIO, room: memoryview) -> int:
    """Read what is there; a pipe's small pieces are gathered as long as they come quickly.

    Returns:
        Bytes read; 0 at the end of the stream.
    """
    # One system call a read: what has come must not wait for the room to be full.
    once = getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]
    got = once(room) or 0
    if not 0 < got < len(room) or not _is_pipe(stream):
        return got
    give_up = time.monotonic() + GATHER_SECONDS
    while got < len(room) and (left := give_up - time.monotonic()) > 0:
        if not select.select([stream], [], [], min(left, PAUSE_SECONDS))[0]:
            break
        more = once(room[got:]) or 0
        if not more:
            break
        got += more
    return got


def _is_pipe(stream: BinaryIO) -> bool:
    try:
        return os.name == "posix" and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # an object in memory has no descriptor
        return False


def _name(what: str | Path | BinaryIO) -> str:
    if what == STDIN:
        return "standard input"
    return str(what) if isinstance(what, str | Path) else str(getattr(what, "name", "the capture"))


def _cannot(name: str, error: OSError) -> CaptureError:
    reason = error.strerror or type(error).__name__
    return CaptureError(f"cannot read {name}: {reason}; check the path and the right to read it")

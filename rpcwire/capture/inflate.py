"""Decompression of what arrives piece by piece: gzip always, zstd where it is at hand."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from rpcwire.capture.health import CaptureHealth
from rpcwire.errors import CaptureError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Most that is handed on at once, so that a few hostile bytes cannot ask for all memory.
OUTPUT_BYTES = 4 << 20
# Input is fed in steps, so that damage costs at most the output of one of them.
STEP_BYTES = 256 << 10
# Step towards a damaged place, before the last one is done byte by byte.
SALVAGE_BYTES = 4096
# The zstandard package cannot bound its output; 512 bytes make 16 MiB at the very worst.
ZSTD_STEP_BYTES = 512
# Output of such small steps is handed on in larger pieces.
GATHERED_BYTES = 1 << 20


class Inflater(Protocol):
    """Turns compressed bytes into plain ones."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk; exhaust the iterator before the next call."""

    def finish(self) -> None:
        """Say that there is no more; a note tells if the stream was not at its end."""


class GzipInflater:
    """Concatenated gzip members."""

    def __init__(self, health: CaptureHealth, name: str) -> None:
        self._health = health
        self._name = name
        self._stream = zlib.decompressobj(31)
        self._fed = 0
        self._carry = b""
        self._between = False
        self._dead = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk; exhaust the iterator before the next call."""
        for at in range(0, len(chunk), STEP_BYTES):
            if self._dead:
                return
            yield from self._step(chunk[at : at + STEP_BYTES])

    def finish(self) -> None:
        """Say that there is no more; a note tells if the stream was not at its end."""
        if not self._dead and not self._between:
            self._health.note(f"{self._name}: the gzip data is cut off after {self._fed:,} bytes")

    def _step(self, data: bytes) -> Iterator[bytes]:
        self._fed += len(data)
        while data:
            if self._between:
                data = self._next_member(data)
                if not data:
                    return
            saved = self._stream.copy()
            try:
                out = self._stream.decompress(data, OUTPUT_BYTES)
            except zlib.error:
                yield from self._salvage(saved, data)
                return
            if out:
                yield out
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                self._between = True
                data = self._stream.unused_data

    def _next_member(self, data: bytes) -> bytes:
        data = self._carry + data
        self._carry = b""
        # gzip pads with zeros on tapes and the like.
        data = data.lstrip(b"\0")
        if not data:
            return b""
        if len(data) == 1 and data == GZIP_MAGIC[:1]:
            self._carry = data
            return b""
        if not data.startswith(GZIP_MAGIC):
            self._dead = True
            self._health.note(f"{self._name}: bytes after the end of the gzip data are ignored")
            return b""
        self._stream = zlib.decompressobj(31)
        self._between = False
        return data

    def _salvage(self, stream: Any, data: bytes) -> Iterator[bytes]:
        """Read on in small steps up to the place of the damage."""
        self._dead = True
        self._health.note(
            f"{self._name}: the gzip data is damaged near byte "
            f"{self._fed:,}; what came before was read"
        )
        size = SALVAGE_BYTES
        while data:
            saved = stream.copy()
            try:
                out = stream.decompress(data[:size], OUTPUT_BYTES)
            except zlib.error:
                if size == 1:
                    return
                stream, size = saved, 1
                continue
            if out:
                yield out
            data = stream.unconsumed_tail + data[size:]


class ZstdInflater:
    """Concatenated zstd frames, by compression.zstd (Python 3.14) or the package zstandard."""

    def __init__(self, health: CaptureHealth, name: str) -> None:
        self._health = health
        self._name = name
        self._make, self._error = _zstd(name)
        self._stream = self._make()
        self._fed = 0
        self._started = False
        self._dead = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk; exhaust the iterator before the next call."""
        gathered: list[bytes] = []
        size = 0
        for at in range(0, len(chunk), ZSTD_STEP_BYTES):
            if self._dead:
                break
            for out in self._step(chunk[at : at + ZSTD_STEP_BYTES]):
                gathered.append(out)
                size += len(out)
            if size >= GATHERED_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        if gathered:
            yield b"".join(gathered)

    def finish(self) -> None:
        """Say that there is no more; a note tells if the stream was not at its end."""
        if self._started and not self._dead:
            self._health.note(f"{self._name}: the zstd data is cut off after {self._fed:,} bytes")

    def _step(self, data: bytes) -> Iterator[bytes]:
        self._fed += len(data)
        while data:
            self._started = True
            try:
                out = self._stream.decompress(data)
            except self._error:
                self._dead = True
                self._health.note(
                    f"{self._name}: the zstd data is damaged near byte "
                    f"{self._fed:,}; what came before was read"
                )
                return
            if out:
                yield out
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data
                self._stream = self._make()
                self._started = False


def _zstd(name: str) -> tuple[Any, type[Exception]]:
    """Maker of decompressors, and the error that they raise."""
    try:
        from compression import zstd

        return zstd.ZstdDecompressor, zstd.ZstdError
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise CaptureError(
            f"{name} is compressed with zstd: install the package zstandard, or run zstd -d first"
        ) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError

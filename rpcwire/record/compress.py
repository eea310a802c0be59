"""Files that are compressed where their name asks for it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePath
from typing import Any, BinaryIO

from rpcwire.capture.writer import Sink
from rpcwire.errors import UsageError

_LEVEL = 6
#: Suffixes of other compressed files, which nobody here can write.
_UNKNOWN = {".xz", ".bz2", ".lz4", ".zip", ".br"}


def compressor(name: str, file: BinaryIO) -> AbstractContextManager[Sink]:
    """What to write to so that a file gets what its name promises.

    Args:
        name: ends in .gz or .zst for a compressed file.
        file: receives the bytes; it is not closed.

    Raises:
        UsageError: that cannot be done here.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", _LEVEL, file, mtime=0)
    if suffix == ".zst":
        made: AbstractContextManager[Sink] = _zstd(name)(file)
        return made
    if suffix in _UNKNOWN:
        raise UsageError(f"{name}: only .gz and .zst can be written; name it .pcapng")
    return nullcontext(file)


def plain_only(name: str) -> None:
    """Refuse names of compressed files where packets are written as they come.

    Raises:
        UsageError: the name promises compression.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in {".gz", ".zst", *_UNKNOWN}:
        raise UsageError(
            f"{name}: a recording is not compressed; name it .pcapng, and compress it afterwards "
            "('rpcwire slim run.pcapng run.pcapng.gz')"
        )


def _zstd(name: str) -> Callable[[BinaryIO], Any]:
    try:
        from compression import zstd

        return lambda file: zstd.ZstdFile(file, "wb")
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise UsageError(
            f"{name}: install the package zstandard to write it, or name it .gz"
        ) from None
    return lambda file: zstandard.ZstdCompressor().stream_writer(file, closefd=False)

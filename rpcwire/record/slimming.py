"""Slim captures from file to file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rpcwire.capture.source import STDIN
from rpcwire.capture.writer import Sink
from rpcwire.errors import CaptureError, UsageError
from rpcwire.record.capturefile import CaptureFile
from rpcwire.record.compress import compressor

_READ_BYTES = 4 << 20

Progress = Callable[[int, int], None]


def slim(
    source: str | Path,
    target: str | Path,
    *,
    anonymize: bool = False,
    progress: Progress | None = None,
) -> CaptureFile:
    """Write the slim form of a capture.

    Args:
        source: the capture, "-" for standard input.
        target: the file to write, "-" for standard output. It appears under its name when it is
            complete. Where the name ends in .gz or .zst it is compressed.
        anonymize: replace addresses.
        progress: called with bytes read and bytes of the file (0: not known).

    Raises:
        CaptureError: the source cannot be read or is no capture, or the target cannot be written.
        UsageError: both are the same file.
    """
    if STDIN not in (source, target) and _same(source, target):
        raise UsageError(f"{source} would be overwritten while it is read; give another name")
    try:
        stream = sys.stdin.buffer if source == STDIN else open(source, "rb")  # noqa: SIM115
        total = 0 if source == STDIN else os.stat(source).st_size
    except OSError as error:
        raise CaptureError(f"cannot read {source}: {error.strerror}") from error
    partial = None if target == STDIN else Path(f"{target}.part")
    try:
        with stream:
            if partial is None:
                done = _slim_file(sys.stdout.buffer, source, anonymize)
                _copy(stream, done, progress, total)
                return done
            with open(partial, "wb") as file, compressor(str(target), file) as out:
                done = _slim_file(out, source, anonymize)
                _copy(stream, done, progress, total)
        os.replace(partial, target)
        return done
    except OSError as error:
        raise CaptureError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _same(source: str | Path, target: str | Path) -> bool:
    return Path(target).exists() and Path(source).exists() and os.path.samefile(source, target)


def _slim_file(out: Sink, source: str | Path, anonymize: bool) -> CaptureFile:
    name = "standard input" if source == STDIN else str(source)
    return CaptureFile(out, name=name, anonymize=anonymize)


def _copy(stream: BinaryIO, target: CaptureFile, progress: Progress | None, total: int) -> None:
    read = 0
    while chunk := stream.read(_READ_BYTES):
        target.feed(chunk)
        read += len(chunk)
        if progress is not None:
            progress(read, total)
    target.finish()

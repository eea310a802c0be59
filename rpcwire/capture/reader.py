"""Files in, batches of TCP segments out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.segments import SegmentBatch
from rpcwire.capture.source import Progress, Source


class SegmentReader:
    """Iterable of SegmentBatch over one or several capture files, which are one run.

    Attributes:
        health: counts and notes; complete when the iteration is.
        progress: bytes read.
    """

    def __init__(self, sources: Sequence[str | Path | BinaryIO]) -> None:
        self.health = CaptureHealth()
        self.progress = Progress()
        self._sources = [
            Source(what, file, self.health, self.progress) for file, what in enumerate(sources)
        ]
        self.health.files = [source.name for source in self._sources]
        sizes = [source.size() for source in self._sources]
        self.progress.total = 0 if None in sizes else sum(size or 0 for size in sizes)

    def __iter__(self) -> Iterator[SegmentBatch]:
        """Batches in order of time; can be iterated once."""
        for source in self._sources:
            yield from source.batches()


def read_segments(sources: Sequence[str | Path | BinaryIO]) -> SegmentReader:
    """Read the TCP segments of capture files.

    Args:
        sources: paths, "-" for standard input, or open binary files.

    Raises:
        CaptureError: a file is missing, cannot be read, or is no capture. The last is raised
            by the iteration.
    """
    return SegmentReader(sources)

"""Files in, batches of TCP segments out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.merge import merge
from rpcwire.capture.segments import SegmentBatch
from rpcwire.capture.source import Progress, Source
from rpcwire.errors import UsageError

# Files are numbered by 16 bits in the segments.
MAX_FILES = 32_767


class SegmentReader:
    """Iterable of SegmentBatch over one or several capture files, which are one run.

    Attributes:
        health: counts and notes; complete when the iteration is.
        progress: bytes read.
    """

    def __init__(
        self,
        sources: Sequence[str | Path | BinaryIO],
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        relative: bool = False,
    ) -> None:
        if not 0 < len(sources) <= MAX_FILES:
            raise UsageError(f"between 1 and {MAX_FILES:,} captures can be read as one run")
        self.health = CaptureHealth()
        self.progress = Progress()
        self._since, self._until, self._relative = since_ns, until_ns, relative
        self._sources = [
            Source(what, file, self.health, self.progress) for file, what in enumerate(sources)
        ]
        self.health.files = [source.name for source in self._sources]
        sizes = [source.size() for source in self._sources]
        self.progress.total = 0 if None in sizes else sum(size or 0 for size in sizes)

    def __iter__(self) -> Iterator[SegmentBatch]:
        """Batches in order of time, none of them empty; can be iterated once.

        Raises:
            CaptureError: a file cannot be read, or none is a capture.
        """
        one = len(self._sources) == 1
        batches = self._sources[0].batches() if one else merge(self._sources, self.health)
        if self._since is not None or self._until is not None:
            batches = self._within(batches)
        yield from batches
        if not self.health.packets:
            self.health.note("no packet was captured")

    def _within(self, batches: Iterator[SegmentBatch]) -> Iterator[SegmentBatch]:
        """Only the segments of the time window."""
        limits = np.iinfo(np.int64)
        low = limits.min if self._since is None else self._since
        high = limits.max if self._until is None else self._until
        start: int | None = None
        for batch in batches:
            if start is None:
                start = (self.health.first_ns or 0) if self._relative else 0
            time_ns = batch.time_ns - start
            inside = (time_ns >= low) & (time_ns <= high)
            kept = batch if inside.all() else batch.take(inside)
            self.health.outside_window += len(batch) - len(kept)
            if len(kept):
                yield kept


def read_segments(
    sources: Sequence[str | Path | BinaryIO],
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    relative: bool = False,
) -> SegmentReader:
    """Read the TCP segments of capture files.

    Args:
        sources: paths, "-" for standard input, or open binary files.
        since_ns: time from which segments are wanted, in ns; both ends of the window belong to it.
        until_ns: time up to which segments are wanted, in ns.
        relative: whether these times count from the first packet instead of the epoch.

    Raises:
        CaptureError: a file is missing or must not be read. That it is no capture is raised by
            the iteration.
        UsageError: no source, or too many of them.
    """
    return SegmentReader(sources, since_ns=since_ns, until_ns=until_ns, relative=relative)

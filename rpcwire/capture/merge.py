"""Several files as one run: in sequence where they follow each other, merged where they overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.segments import COLUMNS, SegmentBatch
from rpcwire.capture.source import Source
from rpcwire.errors import CaptureError


def merge(sources: Sequence[Source], health: CaptureHealth) -> Iterator[SegmentBatch]:
    """Batches of all sources in order of time; within a file the order stays that of the file.

    Files that begin later than others end (ring buffers) are opened only when their turn comes.

    Args:
        sources: the inputs, in order of their file index.
        health: notes are added here.

    Raises:
        CaptureError: no source is a capture.
    """
    waiting = _by_start(sources, health)
    active: list[_Track] = []
    while waiting or active:
        while waiting and (not active or waiting[0].start <= min(t.keys[0] for t in active)):
            track = waiting.pop(0)
            if track.advance():
                active.append(track)
        if not active:
            return
        active.sort(key=lambda track: track.file)
        yield _join(_ready(active, waiting[0].start if waiting else None))
        active = [track for track in active if len(track.keys) or track.advance()]


class _Track:
    """One source while it is being merged.

    Attributes:
        file: index of the file among the inputs.
        start: time of its first packet in ns; 0 when that is not known beforehand.
        keys: int64[n], for each segment at hand the latest time in the file so far: sorted.
    """

    def __init__(self, source: Source, start: int) -> None:
        self.file = source.file
        self.start = start
        self.keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._latest = np.iinfo(np.int64).min
        self._batches = source.batches()
        self._batch: SegmentBatch | None = None

    def advance(self) -> bool:
        """Read the next batch; False at the end of the file."""
        self._batch = next(self._batches, None)
        if self._batch is None:
            return False
        self.keys = np.maximum.accumulate(np.maximum(self._batch.time_ns, self._latest))
        self._latest = int(self.keys[-1])
        return True

    def pop(self, count: int) -> tuple[SegmentBatch, NDArray[np.int64]]:
        """Take the first `count` segments away, with their keys."""
        assert self._batch is not None
        batch, keys = self._batch, self.keys
        self.keys = keys[count:]
        if count == len(keys):
            return batch, keys
        self._batch = batch.take(slice(count, None))
        front = batch.take(slice(count))
        front.last_number = int(front.number[-1])
        return front, keys[:count]


def _by_start(sources: Sequence[Source], health: CaptureHealth) -> list[_Track]:
    tracks: list[_Track] = []
    first_error: CaptureError | None = None
    for source in sources:
        try:
            tracks.append(_Track(source, source.first_ns() or 0))
        except CaptureError as error:
            first_error = first_error or error
            health.note(f"left out: {error}")
    if first_error is not None and not tracks:
        raise first_error
    return sorted(tracks, key=lambda track: (track.start, track.file))


def _ready(
    active: list[_Track], next_start: int | None
) -> list[tuple[SegmentBatch, NDArray[np.int64]]]:
    """What no later batch or file can precede."""
    bound = min(active, key=lambda track: (track.keys[-1], track.file))
    limit = int(bound.keys[-1])
    counts = [
        int(np.searchsorted(t.keys, limit, "right" if t.file <= bound.file else "left"))
        for t in active
    ]
    if next_start is not None and next_start <= limit:
        counts = [int(np.searchsorted(track.keys, next_start, "left")) for track in active]
    return [track.pop(count) for track, count in zip(active, counts, strict=True) if count]


def _join(parts: list[tuple[SegmentBatch, NDArray[np.int64]]]) -> SegmentBatch:
    if len(parts) == 1:
        return parts[0][0]
    pieces, at = [], 0
    batches: list[SegmentBatch] = []
    for batch, _ in parts:
        low = int(batch.payload.min())
        high = max(low, int((batch.payload + batch.captured).max()))
        pieces.append(batch.data[low:high])
        moved = batch.take(slice(None))
        # Header-only segments may point behind the kept bytes; they have none of their own.
        moved.payload = np.minimum(batch.payload, high) - low + at
        batches.append(moved)
        at += high - low
    order = np.argsort(np.concatenate([keys for _, keys in parts]), kind="stable")
    columns = {
        name: np.concatenate([getattr(batch, name) for batch in batches])[order] for name in COLUMNS
    }
    last_number = int(columns["number"][-1])
    return SegmentBatch(data=np.concatenate(pieces), last_number=last_number, **columns)

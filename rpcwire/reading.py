"""Captures read through a session, from beginning to end, narrowed to what was asked for.

A window narrows what is counted, not what is decoded: everything before it is read as well, so
that graphs, roles and requests are known inside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import numpy as np

from rpcwire.capture.reader import read_segments
from rpcwire.capture.source import STDIN
from rpcwire.errors import UsageError
from rpcwire.session import Session
from rpcwire.window import ALWAYS, Moment, Window, between

if TYPE_CHECKING:
    from rpcwire.capture.segments import SegmentBatch
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.sequences import Request

Source = str | Path | BinaryIO
Sources = Source | Sequence[Source]
When = str | float | None
Progress = Callable[[int, int], None]


class ReadOptions(TypedDict, total=False):
    """Keywords of everything that reads captures; see Reading."""

    ports: Container[int] | None
    since: When
    until: When
    request: int | None
    progress: Progress | None


#: Capture time read beyond the window, so that what began inside is seen whole.
_GRACE_NS = 2_000_000_000
#: Frames that wait for a response to be complete before they are handed on.
_MOST_WAITING = 2_000


class Reading:
    """One run over captures.

    Args:
        paths: a capture or several that are one run; "-" is standard input.
        ports: only connections with one of these ports on either end; None takes all.
        since: beginning of the window, see Moment.
        until: its end.
        request: number of the one request wanted, from 1.
        progress: called with bytes read and bytes of all files (0: unknown) now and then.
        on_frame: called with every frame of the window, in order.
        on_pass: called with every pass, in the window or not.

    Attributes:
        session: streams, frames and accounts.
        health: of the captures.
        window: what counts; set by the first packets.
        interrupted: standard input was ended by the user.
        stopped: the rest lay behind the window and was not read.

    Raises:
        CaptureError: a file cannot be read.
        UsageError: the window makes no sense, or there is no such request.
    """

    def __init__(
        self,
        paths: Sources,
        *,
        on_frame: Callable[[Frame], None] | None = None,
        on_pass: Callable[[Pass], None] | None = None,
        ports: Container[int] | None = None,
        since: When = None,
        until: When = None,
        request: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.paths = _several(paths)
        self._since = None if since is None else Moment(str(since))
        self._until = None if until is None else Moment(str(until))
        self._progress = progress
        self._on_frame = on_frame
        self._reader = read_segments(self.paths)
        self.health = self._reader.health
        self.window = ALWAYS
        self._wanted = ALWAYS
        if request is not None:
            self._wanted = _request_window(self.paths, ports, request)
        self.narrowed = not (since is until is request is None)
        self.request = request
        self.interrupted = self.stopped = False
        self._filtered = None if ports is None else _Filtered(ports)
        self.session = Session(
            ports=ports,
            on_frame=self._frame if self.narrowed and on_frame else on_frame,
            on_pass=on_pass,
        )

    @property
    def filtered_connections(self) -> int:
        """Pairs of endpoints that the port filter left out."""
        return 0 if self._filtered is None else len(self._filtered.pairs)

    def holds(self, time_ns: int) -> bool:
        """Whether a moment lies in the window, which is not known before the first packet."""
        return self.window.holds(time_ns)

    def run(self) -> None:
        """Read everything."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Read bit by bit; between two steps results may be taken."""
        live = STDIN in self.paths
        batches = iter(self._reader)
        at_start = True
        while True:
            try:
                batch = next(batches, None)
            except KeyboardInterrupt:
                if not live:
                    raise
                self.interrupted = True  # the end of a live capture, not of the analysis
                break
            if batch is None:
                break
            if at_start:
                at_start = False
                self._open_window()
            if self._until is not None or self._wanted is not ALWAYS:
                self.stopped = int(batch.time_ns.min()) > self.window.high + _GRACE_NS
                if self.stopped:
                    break
            self.session.feed(batch)
            if self._filtered is not None:
                self._filtered.add(batch)
            if self._progress is not None:
                self._progress(self._reader.progress.read, self._reader.progress.total)
            yield
        self.session.finish()
        yield

    def _open_window(self) -> None:
        first = self.health.first_ns or 0
        self.window = between(self._since, self._until, first).meets(self._wanted)

    def _frame(self, frame: Frame) -> None:
        if self.window.holds(frame.time_ns) and self._on_frame is not None:
            self._on_frame(frame)


class _Filtered:
    """Counts the pairs of endpoints that a port filter leaves out."""

    _MOST = 1_000_000

    def __init__(self, ports: Container[int]) -> None:
        self._wanted = np.fromiter((port in ports for port in range(1 << 16)), np.bool_)
        self.pairs: set[bytes] = set()

    def add(self, batch: SegmentBatch) -> None:
        """Take a batch of segments."""
        out = ~(self._wanted[batch.sport] | self._wanted[batch.dport])
        if not out.any() or len(self.pairs) >= self._MOST:
            return
        ends = [
            np.column_stack((address[out], port[out].astype(np.uint64)))
            for address, port in ((batch.src, batch.sport), (batch.dst, batch.dport))
        ]
        pairs = np.unique(np.hstack(ends), axis=0)
        for row in pairs.tolist():
            a, b = sorted((tuple(row[:3]), tuple(row[3:])))
            self.pairs.add(repr((a, b)).encode())


class Completed:
    """Hands frames on in order, each request once its response is there (or cannot come).

    A frame is final when its phase is, which for a load is before the response was seen.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Frame, Frame]] = deque()

    def add(self, frame: Frame) -> None:
        """Take a frame, from `on_frame`: a response knows its request only so long."""
        self._waiting.append((frame, frame.request or frame))

    def ready(self, *, everything: bool = False) -> Iterator[tuple[Frame, Frame]]:
        """Complete frames, each with its request (a request with itself).

        Args:
            everything: no more will come.
        """
        waiting = self._waiting
        while waiting:
            if not everything and len(waiting) < _MOST_WAITING and _open(waiting[0][0]):
                return
            yield waiting.popleft()


def _open(frame: Frame) -> bool:
    """Whether a request's response is still to come."""
    if frame.direction or frame.response is not None:
        return False
    dialect = frame.connection.layout
    answered = _ANSWERED.get(dialect.key)
    if answered is None:
        names = (s.name for s in dialect.shapes.values() if s.answered)
        answered = _ANSWERED[dialect.key] = frozenset(names)
    return frame.command in answered


#: Commands that are answered, by dialect.
_ANSWERED: dict[str, frozenset[str]] = {}


def _several(paths: Sources) -> list[Source]:
    if isinstance(paths, str | Path) or not isinstance(paths, Sequence):
        return [paths]
    if not paths:
        raise UsageError("no capture was given")
    if sum(p == STDIN for p in paths) > 1:
        raise UsageError("standard input (-) can be read only once")
    return list(paths)


def _request_window(paths: list[Source], ports: Container[int] | None, number: int) -> Window:
    """When a request ran, from a first look at the whole capture."""
    if not all(isinstance(p, str | Path) and p != STDIN for p in paths):
        raise UsageError("one request can be picked from files only: they are read twice")
    first = Reading(paths, ports=ports)
    first.run()
    requests: list[Request] = first.session.run.requests
    if not 1 <= number <= len(requests):
        some = "no requests" if not requests else f"requests 1 to {len(requests)}"
        raise UsageError(f"there is no request {number}: the capture holds {some}")
    chosen = requests[number - 1]
    return Window(chosen.start_ns, max(chosen.end_ns, chosen.start_ns))

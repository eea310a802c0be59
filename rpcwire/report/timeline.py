"""What moved when, in a bounded number of bins whose width doubles as the run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.runs.words import GENERATION, PHASES

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

BINS = 480
_FIRST_WIDTH_NS = 100_000
#: Phases during which a request is being worked on: the time between their frames is theirs.
_RUNNING = frozenset({*GENERATION, "prefill", "state"})
_LAST_WIDTH_NS = 1 << 70


class Timeline:
    """Bytes both ways and time by phase.

    Attributes:
        start_ns: of the first bin; None before the first frame. width_ns: of a bin.
        used: bins from the first to the last that holds something.
        bytes: [up, down], each BINS numbers. busy: by phase, nanoseconds in each bin.
    """

    def __init__(self) -> None:
        self.start_ns: int | None = None
        self.width_ns = _FIRST_WIDTH_NS
        self.used = 0
        self.bytes: tuple[list[float], list[float]] = ([0.0] * BINS, [0.0] * BINS)
        self.busy: dict[str, list[float]] = {}
        self._last_phase = ""
        self._last_end = 0

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase is final."""
        begun, ended, phase = frame.time_ns, frame.end_ns, frame.phase
        if self.start_ns is None:
            self.start_ns = self._last_end = begun
        last, before = self._last_phase, self._last_end
        goes_on = phase == last or (phase in _RUNNING and last in _RUNNING)
        if not goes_on and frame.direction == UP and begun > before:
            before = begun
        self._spread(self.bytes[frame.direction], begun, ended, frame.bytes)
        if ended > before:
            self._spread(self._bins(phase), before, ended, ended - before)
            self._last_end = ended
        self._last_phase = phase

    def take(self, other: Timeline) -> None:
        """Add all that another one holds."""
        if other.start_ns is None:
            return
        if self.start_ns is None:
            self.start_ns = other.start_ns
        pairs = [*zip(other.bytes, self.bytes, strict=True)]
        pairs += [(busy, self._bins(phase)) for phase, busy in other.busy.items()]
        for given, own in pairs:
            for i, amount in enumerate(given[: other.used]):
                start = other.start_ns + i * other.width_ns
                if amount:
                    self._spread(own, start, start + other.width_ns - 1, amount)

    def _bins(self, phase: str) -> list[float]:
        busy = self.busy.get(phase)
        if busy is None:
            busy = self.busy[phase] = [0.0] * BINS
        return busy

    def shares(self) -> dict[str, list[float]]:
        """By phase, in the order of the words, its part of each bin's time (0 to 1)."""
        found = {}
        for phase in PHASES:
            busy = self.busy.get(phase)
            if busy is not None and any(busy[: self.used]):
                found[phase] = [min(1.0, ns / self.width_ns) for ns in busy[: self.used]]
        return found

    def rates(self, direction: int) -> list[float]:
        """Bytes a second in each bin."""
        return [count * 1e9 / self.width_ns for count in self.bytes[direction][: self.used]]

    def _spread(self, bins: list[float], start_ns: int, end_ns: int, amount: float) -> None:
        """Add an amount, evenly over the time that it took."""
        assert self.start_ns is not None
        start, end = start_ns - self.start_ns, end_ns - self.start_ns
        if start < 0:
            start, end = 0, max(end, 0)
        width = self.width_ns
        first, last = start // width, end // width
        while last >= BINS and width < _LAST_WIDTH_NS:
            self._fold()
            width = self.width_ns
            first, last = start // width, end // width
        if last >= self.used:
            self.used = last + 1
        if first >= last:
            bins[first] += amount
            return
        each = amount / (end - start)
        bins[first] += each * ((first + 1) * width - start)
        for i in range(first + 1, last):
            bins[i] += each * width
        bins[last] += each * (end - last * width)

    def _fold(self) -> None:
        """Make bins twice as wide."""
        self.width_ns *= 2
        self.used = (self.used + 1) // 2
        for bins in (*self.bytes, *self.busy.values()):
            halved = [bins[i] + bins[i + 1] for i in range(0, BINS, 2)]
            bins[:] = halved + [0.0] * (BINS // 2)

"""The books: every frame counted once by phase, role, command and connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.runs.words import GENERATION, PHASES, ROLES

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

_RESERVOIR = 4096


@dataclass(slots=True)
class Tally:
    """Bytes up and down, and frames."""

    up: int = 0
    down: int = 0
    frames: int = 0

    def add(self, frame: Frame) -> None:
        """Count one frame."""
        if frame.direction == UP:
            self.up += frame.bytes
        else:
            self.down += frame.bytes
        self.frames += 1

    def plus(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.up += other.up
        self.down += other.down
        self.frames += other.frames


@dataclass(slots=True)
class PhaseTotals:
    """What a phase has besides bytes."""

    round_trips: int = 0
    passes: int = 0
    rows: int = 0
    duration_ns: int = 0


class Distribution:
    """Count, sum and quantiles of durations in bounded memory (every k-th value, k doubling)."""

    __slots__ = ("_skip", "_stride", "count", "high", "low", "total", "values")

    def __init__(self) -> None:
        self.count = self.total = 0
        self.low = self.high = 0
        self.values: list[int] = []
        self._stride = 1
        self._skip = 0

    def add(self, value_ns: int) -> None:
        """Take a duration in ns."""
        self.low = value_ns if not self.count else min(self.low, value_ns)
        self.high = max(self.high, value_ns)
        self.count += 1
        self.total += value_ns
        self._skip += 1
        if self._skip >= self._stride:
            self._skip = 0
            self.values.append(value_ns)
            if len(self.values) >= _RESERVOIR:
                self.values = self.values[::2]
                self._stride *= 2

    def quantile(self, q: float) -> int:
        """The value in ns below which a share q of the values lies; exact up to 4,096 values."""
        if not self.values:
            return 0
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    def summary_ms(self) -> dict[str, float] | None:
        """min, median, p95 and max in ms; None when nothing was measured."""
        if not self.count:
            return None
        return {
            "min": self.low / 1e6,
            "median": self.quantile(0.5) / 1e6,
            "p95": self.quantile(0.95) / 1e6,
            "max": self.high / 1e6,
        }


@dataclass
class CommandTotals:
    """One command: requests, bytes and response times."""

    count: int = 0
    tally: Tally = field(default_factory=Tally)
    response: Distribution = field(default_factory=Distribution)


#: Commands that a worker answers at once: their response time is the path's round trip.
TRIVIAL = ("HELLO", "DEVICE_COUNT", "GET_ALIGNMENT", "GET_MAX_SIZE", "GET_DEVICE_MEMORY")
_GRAPHS = ("GRAPH_COMPUTE", "GRAPH_RECOMPUTE")
_SPAN_BYTES = 16 << 10  #: below it the time between a frame's bytes is the sender's, not the link's
_RATE_BYTES = 1 << 20  #: frames from this size on show the rate of the path


class WorkerTimes:
    """What one worker contributes to the time of generation.

    Attributes:
        trips: round trips. waits: answers waited for. waited_ns: time from a graph's (or a
            blocking request's) last byte to its response's first, united over all workers.
        up_ns, down_ns: time from first to last byte of the frames that take many packets.
        up, down: bytes of the frames.
        trivial: response times by command. rates: [up, down], ns for a megabyte of frames that
            are large enough to show the path's rate.
    """

    __slots__ = (
        "down",
        "down_ns",
        "rates",
        "trips",
        "trivial",
        "up",
        "up_ns",
        "waited_ns",
        "waits",
    )

    def __init__(self) -> None:
        self.trips = self.waits = self.waited_ns = 0
        self.up_ns = self.down_ns = self.up = self.down = 0
        self.trivial: dict[str, Distribution] = {}
        self.rates = (Distribution(), Distribution())


class Totals:
    """Counts frames as they are released: once each, when phase and role are known."""

    def __init__(self) -> None:
        self.phases: dict[str, PhaseTotals] = {p: PhaseTotals() for p in PHASES}
        self.cells: dict[tuple[str, str], Tally] = {}
        self.generation: dict[str, Tally] = {}  #: by role, what counts per token
        self.generation_trips = 0
        self.commands: dict[str, CommandTotals] = {}
        self.connections: dict[int, CommandTotals] = {}
        self.workers: dict[tuple[str, int], WorkerTimes] = {}
        self._submitted: dict[int, int] = {}  #: by connection, end of a graph not waited for yet
        self._waited_until = 0
        self._last_phase = ""
        self._last_end = 0

    def release(self, frame: Frame) -> None:
        """Count a frame whose phase and role are final."""
        phase, role = frame.phase, frame.role
        cell = self.cells.get((phase, role))
        if cell is None:
            cell = self.cells[phase, role] = Tally()
        cell.add(frame)
        group = frame.group if frame.request is None else frame.request.group
        counts = phase in GENERATION or (group is not None and group.generation)
        if counts:
            tally = self.generation.get(role)
            if tally is None:
                tally = self.generation[role] = Tally()
            tally.add(frame)
        self._time(frame, phase in GENERATION or (counts and group is not None and group.timed))
        command = self.commands.get(frame.command)
        if command is None:
            command = self.commands[frame.command] = CommandTotals()
        connection = self.connections.get(frame.connection.id)
        if connection is None:
            connection = self.connections[frame.connection.id] = CommandTotals()
        command.tally.add(frame)
        connection.tally.add(frame)
        if frame.direction == UP:
            command.count += 1
            connection.count += 1
            self._interval(frame)
        else:
            request = frame.request
            if request is not None:
                command.response.add(max(0, frame.time_ns - request.end_ns))
            if phase == self._last_phase and frame.end_ns > self._last_end:
                self.phases[phase].duration_ns += frame.end_ns - self._last_end
            self._last_end = max(self._last_end, frame.end_ns)

    def round_trip(self, frame: Frame) -> None:
        """Count a round trip for a request whose phase is final."""
        self.phases[frame.phase].round_trips += 1
        if frame.phase in GENERATION or (frame.group is not None and frame.group.generation):
            self.generation_trips += 1
        if frame.phase in GENERATION or (frame.group is not None and frame.group.timed):
            self._worker(frame).trips += 1

    def _worker(self, frame: Frame) -> WorkerTimes:
        server = frame.connection.server
        worker = self.workers.get(server)
        if worker is None:
            worker = self.workers[server] = WorkerTimes()
        return worker

    def _time(self, frame: Frame, timed: bool) -> None:
        worker = self._worker(frame)
        if frame.direction == UP:
            if frame.command in _GRAPHS:
                self._submitted[frame.connection.id] = frame.end_ns
            if timed:
                worker.up += frame.bytes
                worker.up_ns += _span(frame)
            if frame.bytes >= _RATE_BYTES:
                _add_rate(worker.rates[0], frame)
            return
        if frame.bytes >= _RATE_BYTES:
            _add_rate(worker.rates[1], frame)
        request = frame.request
        submitted = self._submitted.pop(frame.connection.id, 0)
        if request is None:
            return
        if frame.command in TRIVIAL:
            times = worker.trivial.setdefault(frame.command, Distribution())
            times.add(max(0, frame.time_ns - request.end_ns))
        if timed:
            start = max(submitted or request.end_ns, self._waited_until)
            worker.waited_ns += max(0, frame.time_ns - start)
            worker.waits += 1
            worker.down += frame.bytes
            worker.down_ns += _span(frame)
            self._waited_until = max(self._waited_until, frame.time_ns)

    def _interval(self, frame: Frame) -> None:
        """Count the time up to a frame for its phase.

        Between two frames of one phase its time goes on; while a request is generating, the time
        before a frame is its phase's.
        """
        phase = frame.phase
        generating = phase in GENERATION or (frame.group is not None and frame.group.timed)
        running = phase == self._last_phase != "state" or (
            generating and self._last_phase in (*GENERATION, "prefill", "state")
        )
        start = self._last_end if running and self._last_end else frame.time_ns
        end = max(frame.end_ns, self._last_end)
        if end > start:
            self.phases[phase].duration_ns += end - start
        self._last_phase = phase
        self._last_end = end

    def by_phase(self) -> dict[str, Tally]:
        """Bytes and frames of each phase, in the order of the words."""
        return self._sum(0, PHASES)

    def by_role(self) -> dict[str, Tally]:
        """Bytes and frames of each role that occurs, in the order of the words."""
        return {r: t for r, t in self._sum(1, ROLES).items() if t.frames}

    def _sum(self, axis: int, words: tuple[str, ...]) -> dict[str, Tally]:
        sums = {w: Tally() for w in words}
        for key, tally in self.cells.items():
            sums[key[axis]].plus(tally)
        return sums


def _span(frame: Frame) -> int:
    """Time in ns that the link took from a frame's first to its last byte, as far as it shows."""
    return frame.end_ns - frame.time_ns if frame.bytes >= _SPAN_BYTES else 0


def _add_rate(rate: Distribution, frame: Frame) -> None:
    if not frame.missing and frame.end_ns > frame.time_ns:
        rate.add((frame.end_ns - frame.time_ns) * (1 << 20) // frame.bytes)

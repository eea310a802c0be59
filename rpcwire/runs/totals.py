"""The books: every frame counted once by phase, role, command and connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rpcwire.ggml.frame import UP
from rpcwire.ggml.place import place
from rpcwire.runs.distribution import Distribution
from rpcwire.runs.passes import PER_TOKEN, TIMED
from rpcwire.runs.words import GENERATION, PHASES, ROLES

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.ggml.stream import RpcConnection


@dataclass(slots=True)
class Tally:
    """Sums of frames.

    Attributes:
        up, down: bytes. frames: of both directions. requests, round_trips: among them.
        numbers: places (see ggml.place) of the first requests, at most EXAMPLES.
    """

    up: int = 0
    down: int = 0
    frames: int = 0
    requests: int = 0
    round_trips: int = 0
    numbers: list[int] = field(default_factory=list)

    def plus(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.up += other.up
        self.down += other.down
        self.frames += other.frames
        self.requests += other.requests
        self.round_trips += other.round_trips
        self.numbers += other.numbers[: EXAMPLES - len(self.numbers)]


@dataclass(slots=True)
class PhaseTotals:
    """What a phase has besides bytes."""

    passes: int = 0
    rows: int = 0
    duration_ns: int = 0


@dataclass(slots=True)
class CommandTotals:
    """One command: its frames and response times."""

    tally: Tally
    response: Distribution


#: Commands that a worker answers at once: their response time is the path's round trip.
TRIVIAL = ("HELLO", "DEVICE_COUNT", "GET_ALIGNMENT", "GET_MAX_SIZE", "GET_DEVICE_MEMORY")
_GRAPHS = frozenset({"GRAPH_COMPUTE", "GRAPH_RECOMPUTE"})
#: Phases during which a request is being worked on.
_RUNNING = frozenset({*GENERATION, "prefill", "state"})
EXAMPLES = 5  #: packet numbers kept of each tally
_SPAN_BYTES = 16 << 10  #: below it the time between a frame's bytes is the sender's, not the link's
_RATE_BYTES = 1 << 20  #: frames from this size on show the rate of the path


class WorkerTimes:
    """What one worker contributes to the time of generation.

    Attributes:
        trips: round trips. waits: answers waited for. waited_ns: time from a graph's (or a
            blocking request's) last byte to its response's first, united over all workers.
        devices: that graphs were sent to.
        up_ns, down_ns: time from first to last byte of the frames that take many packets.
        up, down: bytes of the frames.
        trivial: response times by command. rates: [up, down], ns for a megabyte of frames that
            are large enough to show the path's rate.
    """

    __slots__ = (
        "devices",
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
        self.devices: set[int] = set()
        self.up_ns = self.down_ns = self.up = self.down = 0
        self.trivial: dict[str, Distribution] = {}
        self.rates = (Distribution(), Distribution())


class _Account:
    """What the totals remember of one connection."""

    __slots__ = ("id", "submitted_ns", "worker")

    def __init__(self, connection_id: int, worker: WorkerTimes) -> None:
        self.id = connection_id
        self.worker = worker
        self.submitted_ns = 0  #: end of a graph that was not waited for yet


#: What frames are counted under: phase, role, command, connection id, and what they weigh per
#: generated token (see Group.weight; generation is TIMED).
Key = tuple[str, str, str, int, int]


class Totals:
    """Counts frames as they are released: once each, when phase and role are known.

    Attributes:
        phases: what each phase has besides bytes.
        workers: times by worker.
    """

    def __init__(self) -> None:
        self.phases: dict[str, PhaseTotals] = {p: PhaseTotals() for p in PHASES}
        self.workers: dict[tuple[str, int], WorkerTimes] = {}
        self._tallies: dict[Key, Tally] = {}
        self._responses: dict[str, Distribution] = {}
        self._accounts: dict[RpcConnection, _Account] = {}
        self._waited_until = 0
        self._last_phase = ""
        self._last_end = 0

    def release(self, frames: Iterable[Frame]) -> None:
        """Count frames whose phase and role are final, in order."""
        tallies, accounts, phases = self._tallies, self._accounts, self.phases
        last_phase, last_end = self._last_phase, self._last_end
        for frame in frames:
            request = frame.request
            group = frame.group if request is None else request.group
            phase = frame.phase
            weight = TIMED if phase in GENERATION else group.weight if group is not None else 0
            timed = weight == TIMED
            account = accounts.get(frame.connection) or self._open(frame.connection)
            key = (phase, frame.role, frame.command, account.id, weight)
            tally = tallies.get(key)
            if tally is None:
                tally = tallies[key] = Tally()
            tally.frames += 1
            if frame.direction == UP:
                tally.up += frame.bytes
                tally.requests += 1
                if tally.requests <= EXAMPLES:
                    tally.numbers.append(place(frame))
                if timed:
                    account.worker.up += frame.bytes
                if frame.bytes >= _SPAN_BYTES:
                    self._long(frame, account, timed)
                if frame.command in _GRAPHS:
                    account.submitted_ns = frame.end_ns
                    account.worker.devices.add(frame.device)
                # Between two frames of one phase its time goes on; while a request is generating,
                # the time before a frame is its phase's.
                running = phase == last_phase != "state" or (timed and last_phase in _RUNNING)
                start = last_end if running and last_end else frame.time_ns
                end = frame.end_ns if frame.end_ns > last_end else last_end
                if end > start:
                    phases[phase].duration_ns += end - start
                last_phase, last_end = phase, end
                continue
            tally.down += frame.bytes
            if request is not None:
                self._answered(frame, request, account, weight)
            if frame.end_ns > last_end:
                if phase == last_phase:
                    phases[phase].duration_ns += frame.end_ns - last_end
                last_end = frame.end_ns
        self._last_phase, self._last_end = last_phase, last_end

    def round_trip(self, frame: Frame) -> None:
        """Count a round trip for a request whose phase is final."""
        phase, group = frame.phase, frame.group
        weight = TIMED if phase in GENERATION else group.weight if group is not None else 0
        account = self._accounts[frame.connection]
        self._tallies[phase, frame.role, frame.command, account.id, weight].round_trips += 1
        account.worker.trips += weight == TIMED

    def _open(self, connection: RpcConnection) -> _Account:
        worker = self.workers.setdefault(connection.server, WorkerTimes())
        account = self._accounts[connection] = _Account(connection.id, worker)
        return account

    @staticmethod
    def _long(frame: Frame, account: _Account, timed: bool) -> None:
        """A request that takes many packets shows how fast the path is."""
        if timed:
            account.worker.up_ns += frame.end_ns - frame.time_ns
        if frame.bytes >= _RATE_BYTES:
            _add_rate(account.worker.rates[0], frame)

    def _answered(self, frame: Frame, request: Frame, account: _Account, weight: int) -> None:
        worker = account.worker
        submitted, account.submitted_ns = account.submitted_ns, 0
        took = max(0, frame.time_ns - request.end_ns)
        response = self._responses.get(frame.command)
        if response is None:
            response = self._responses[frame.command] = Distribution()
        response.add(took)
        if frame.command in TRIVIAL:
            worker.trivial.setdefault(frame.command, Distribution()).add(took)
        if frame.bytes >= _RATE_BYTES:
            _add_rate(worker.rates[1], frame)
        if weight == TIMED:
            start = max(submitted or request.end_ns, self._waited_until)
            worker.waited_ns += max(0, frame.time_ns - start)
            worker.waits += 1
            worker.down += frame.bytes
            worker.down_ns += _span(frame)
            self._waited_until = max(self._waited_until, frame.time_ns)

    def by_phase(self) -> dict[str, Tally]:
        """Bytes and frames of each phase, in the order of the words."""
        found = self._by(0)
        return {p: found.get(p) or Tally() for p in PHASES}

    def by_role(self, tokens: bool = False) -> dict[str, Tally]:
        """Bytes and frames of each role that occurs, in the order of the words.

        Args:
            tokens: only what counts per generated token.
        """
        found = self._by(1, PER_TOKEN if tokens else 0)
        return {r: found[r] for r in ROLES if r in found}

    def by_command(self) -> dict[str, CommandTotals]:
        """Frames and response times of each command that occurs, in order of appearance."""
        return {
            c: CommandTotals(tally, self._responses.get(c) or Distribution())
            for c, tally in self._by(2).items()
        }

    def by_connection(self, tokens: bool = False) -> dict[int, Tally]:
        """Bytes and frames of each connection, by its id; `tokens` as in `by_role`."""
        return self._by(3, PER_TOKEN if tokens else 0)

    def cells(self) -> Iterable[tuple[Key, Tally]]:
        """Every key, and what was counted under it."""
        return self._tallies.items()

    def _by(self, column: int, weight: int = 0) -> dict[Any, Tally]:
        """Sums by one column of the keys: phase, role, command or connection id."""
        sums: dict[Any, Tally] = {}
        for key, tally in self._tallies.items():
            if key[4] < weight:
                continue
            total = sums.get(key[column])
            if total is None:
                total = sums[key[column]] = Tally()
            total.plus(tally)
        return sums


def _span(frame: Frame) -> int:
    """Time in ns that the link took from a frame's first to its last byte, as far as it shows."""
    return frame.end_ns - frame.time_ns if frame.bytes >= _SPAN_BYTES else 0


def _add_rate(rate: Distribution, frame: Frame) -> None:
    if not frame.missing and frame.end_ns > frame.time_ns:
        rate.add((frame.end_ns - frame.time_ns) * (1 << 20) // frame.bytes)

"""Single tokens kept for the waterfall: the first, the usual and the slow of each kind.

A token, or a round of drafts, begins with the first frame of a pass of the target model and ends
where the next one begins, so that what the client does in between is seen, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rpcwire.ggml.frame import UP
from rpcwire.ggml.tensor import type_name
from rpcwire.runs.distribution import Distribution

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass

KINDS = ("decode", "verify", "prefill")
_GENERATING = ("decode", "verify")
_OF_PASSES = ("decode", "verify", "draft", "prefill")
MOST_FRAMES = 600  #: requests of one sample that are kept; the others are counted
_RESERVOIR = 48
_SLOWEST = 2
_MOST_KNOWN = 4096


class Exchange(NamedTuple):
    """A request and its response; times in ns, -1 where there is none."""

    number: int
    connection: int
    server: tuple[str, int]
    device: int
    command: str
    role: str
    phase: str
    pass_id: int
    tensor: str
    type: str
    shape: str
    up_bytes: int
    up_ns: tuple[int, int]
    down_number: int
    down_bytes: int
    down_ns: tuple[int, int]
    missing: int


@dataclass(slots=True)
class Sample:
    """One token, round or batch of a prompt.

    Attributes:
        kind: one of KINDS. pass_id, rows: of its pass of the target model.
        start_ns, end_ns: its own. left_off: requests not kept.
    """

    kind: str
    pass_id: int
    rows: int
    start_ns: int
    end_ns: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    left_off: int = 0

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return max(0, self.end_ns - self.start_ns)


class _Open:
    """A sample that is not over: its frames are kept as they are, for their responses to come."""

    __slots__ = ("frames", "last_ns", "sample")

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.frames: list[Frame] = []
        self.last_ns = sample.start_ns

    def add(self, frame: Frame) -> None:
        if frame.end_ns > self.last_ns and frame.phase in _OF_PASSES:
            self.last_ns = frame.end_ns
        if frame.direction != UP and frame.request is not None:
            return
        if len(self.frames) < MOST_FRAMES:
            self.frames.append(frame)
        else:
            self.sample.left_off += 1

    def close(self, next_ns: int | None) -> None:
        """End it where the next one begins, or (None) with the last frame of a pass."""
        self.sample.end_ns = max(self.last_ns, next_ns or 0)
        if next_ns is None:  # what follows is no part of a token: state saved, buffers freed
            self.frames = [f for f in self.frames if f.time_ns <= self.last_ns]


class _Kept:
    """What is kept of one kind."""

    def __init__(self) -> None:
        self.first: Sample | None = None
        self.slowest: list[Sample] = []
        self.reservoir: list[Sample] = []
        self.durations = Distribution()
        self._stride = 1

    def add(self, done: Sample, frames: list[Frame]) -> None:
        """Take a sample, and its frames if it is worth it."""
        number = self.durations.count
        self.durations.add(done.duration_ns)
        slow = len(self.slowest) < _SLOWEST or done.duration_ns > self.slowest[-1].duration_ns
        picked = number % self._stride == 0
        if not (slow or picked):
            return
        done.exchanges = [_exchange(frame) for frame in frames]
        if self.first is None:
            self.first = done
        if slow:
            self.slowest = sorted([*self.slowest, done], key=lambda s: -s.duration_ns)[:_SLOWEST]
        if picked:
            self.reservoir.append(done)
            if len(self.reservoir) >= _RESERVOIR:
                self.reservoir = self.reservoir[::2]
                self._stride *= 2

    def chosen(self) -> list[tuple[str, Sample]]:
        """What a page shows, by name, each sample once."""
        if self.first is None:
            return []
        named: list[tuple[str, Sample]] = []
        if self.reservoir:
            for name, q in (("median", 0.5), ("95th percentile", 0.95)):
                named.append((name, self._nearest(self.durations.quantile(q))))
        named += zip(("slowest", "second slowest"), self.slowest, strict=False)
        named.append(("first", self.first))
        found: dict[int, tuple[list[str], Sample]] = {}
        for name, sample in named:
            found.setdefault(sample.pass_id, ([], sample))[0].append(name)
        return [(", ".join(names), sample) for names, sample in found.values()]

    def _nearest(self, value_ns: int) -> Sample:
        return min(self.reservoir, key=lambda s: abs(s.duration_ns - value_ns))


class Sampler:
    """Cuts a run into tokens and keeps a few of them.

    Attributes:
        kept: by kind.
    """

    def __init__(self) -> None:
        self.kept: dict[str, _Kept] = {}
        self._known: dict[int, tuple[str, int]] = {}
        self._open: dict[str, _Open] = {}

    def passed(self, p: Pass) -> None:
        """Take note of a pass whose phase is final; its frames follow."""
        phase = p.group.phase
        if phase in KINDS and not p.context.is_draft and not p.context.is_head:
            self._known[p.id] = (phase, p.rows)
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def frame(self, frame: Frame) -> None:
        """Take a frame."""
        client = frame.connection.client[0]
        known = None
        if frame.pass_id >= 0 and frame.pass_id in self._known:
            known = self._known.pop(frame.pass_id)
        if known is not None:
            self._close(client, frame.time_ns if known[0] in _GENERATING else None)
            kind, rows = known
            self._open[client] = _Open(Sample(kind, frame.pass_id, rows, frame.time_ns))
        current = self._open.get(client)
        if current is not None:
            current.add(frame)

    def finish(self) -> None:
        """No more frames."""
        for client in list(self._open):
            self._close(client, None)
        self._known.clear()

    def chosen(self) -> list[tuple[str, Sample]]:
        """Samples with their names, by kind."""
        return [one for kind in KINDS if kind in self.kept for one in self.kept[kind].chosen()]

    def _close(self, client: str, next_ns: int | None) -> None:
        """End a client's open sample."""
        current = self._open.pop(client, None)
        if current is None:
            return
        current.close(next_ns)
        self.kept.setdefault(current.sample.kind, _Kept()).add(current.sample, current.frames)


def _exchange(frame: Frame) -> Exchange:
    answer = frame.response if frame.direction == UP else frame
    asked = frame if frame.direction == UP else None
    tensor = frame.tensor
    shape = list(tensor.ne) if tensor is not None and tensor.ne else []
    while len(shape) > 1 and shape[-1] == 1:
        shape.pop()
    return Exchange(
        number=frame.number,
        connection=frame.connection.id,
        server=frame.connection.server,
        device=frame.device,
        command=frame.command,
        role=frame.role,
        phase=frame.phase,
        pass_id=frame.pass_id,
        tensor=tensor.name if tensor is not None else "",
        type=type_name(tensor.type) if shape else "",
        shape="×".join(map(str, shape)),
        up_bytes=asked.bytes if asked is not None else 0,
        up_ns=(asked.time_ns, asked.end_ns) if asked is not None else (-1, -1),
        down_number=answer.number if answer is not None else -1,
        down_bytes=answer.bytes if answer is not None else 0,
        down_ns=(answer.time_ns, answer.end_ns) if answer is not None else (-1, -1),
        missing=frame.missing + (answer.missing if answer is not None and asked is not None else 0),
    )

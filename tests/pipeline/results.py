"""What a run came to, in a form that two readings of it can be compared by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rpcwire.capture.segments import SegmentBatch
from rpcwire.ggml.frame import Frame
from rpcwire.session import Session

from .traces import Packet, batches

Fact = tuple[object, ...]


@dataclass
class Result:
    """A session that is done, with its frames in the order they were handed on."""

    session: Session
    frames: list[Frame]

    @property
    def facts(self) -> list[Fact]:
        """What must not depend on how the bytes were packed."""
        return [fact(f) for f in self.frames]

    @property
    def by_connection(self) -> list[tuple[tuple[int, int], list[Fact]]]:
        """The same in stream order, for each direction of each connection."""
        numbers = {rpc: i for i, (_, rpc) in enumerate(self.rpc)}
        found: dict[tuple[int, int], list[Fact]] = {}
        for f in sorted(self.frames, key=lambda f: f.offset):
            found.setdefault((numbers[f.connection], f.direction), []).append(fact(f))
        return sorted(found.items())

    @property
    def requests(self) -> list[Fact]:
        """Token counts of the requests."""
        return [
            (r.prompt_tokens, r.generated_tokens, r.draft_tokens, r.accepted_tokens, r.passes)
            for r in self.session.run.requests
        ]

    @property
    def totals(self) -> dict[str, Fact]:
        """Bytes and frames of each command, phase and role."""
        t = self.session.run.totals
        found: dict[str, Fact] = {}
        for kind, table in (("phase", t.by_phase()), ("role", t.by_role())):
            for name, tally in table.items():
                found[f"{kind} {name}"] = (tally.up, tally.down, tally.frames)
        for name, command in t.by_command().items():
            found[f"command {name}"] = (command.tally.up, command.tally.down, command.tally.frames)
        return {k: v for k, v in found.items() if any(v)}

    @property
    def rpc(self) -> list[object]:
        """Connections that are ggml RPC, as (tcp, rpc)."""
        return [c for c in self.session.connections.items() if c[1].recognised]

    @property
    def undecoded(self) -> int:
        """Undecoded bytes of all connections."""
        return sum(rpc.undecoded_bytes for _, rpc in self.rpc)

    @property
    def stream_bytes(self) -> int:
        """Stream bytes of the connections that are ggml RPC."""
        return sum(half.next for tcp, _ in self.rpc for half in tcp.sides)

    @property
    def missing(self) -> int:
        """Bytes proved but not captured."""
        return sum(half.missing for tcp, _ in self.rpc for half in tcp.sides)

    @property
    def notes(self) -> list[str]:
        """Notes of the connections."""
        return [note for _, rpc in self.rpc for note in rpc.notes]


def fact(f: Frame) -> Fact:
    """One frame, without when and where in the file it came."""
    tensor = None if f.tensor is None else (f.tensor.id, f.tensor.name)
    return (
        f.direction, f.command, f.size, f.bytes, f.missing, f.truncated, f.role, f.phase,
        f.pass_id, f.device, tensor, f.offset,
    )  # fmt: skip


def read(source: Iterable[SegmentBatch]) -> Result:
    """Analyse batches."""
    frames: list[Frame] = []
    session = Session(on_frame=frames.append)
    for b in source:
        session.feed(b)
    session.finish()
    return Result(session, frames)


def run(trace: Sequence[Packet], cuts: Iterable[int] = ()) -> Result:
    """Analyse packets."""
    return read(batches(trace, cuts))


def check_books(r: Result) -> None:
    """Sums that must agree on any input."""
    t = r.session.run.totals
    phases = [(v.up, v.down) for v in t.by_phase().values()]
    roles = [(v.up, v.down) for v in t.by_role().values()]
    commands = [(c.tally.up, c.tally.down) for c in t.by_command().values()]
    sums = [
        tuple(map(sum, zip(*table, strict=True))) or (0, 0) for table in (phases, roles, commands)
    ]
    assert sums[0] == sums[1] == sums[2]
    up, down = sums[0]
    assert up + down + r.undecoded == r.stream_bytes
    assert up == sum(f.bytes for f in r.frames if not f.direction)
    assert down == sum(f.bytes for f in r.frames if f.direction)
    for f in r.frames:
        assert f.phase
        assert f.role
        assert 0 <= f.missing + f.truncated <= f.bytes <= f.size
    if not r.undecoded:
        assert sum(f.missing for f in r.frames) == r.missing
    else:
        assert sum(f.missing for f in r.frames) <= r.missing
        assert any("could not be decoded" in note for note in r.notes)

"""Two runs: per token and per round, by phase and role, what grew and what it explains."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from rpcwire.accounts import accounted
from rpcwire.compare.ends import BothEnds, both_ends
from rpcwire.compare.trace import TracedEvidence
from rpcwire.findings import Facts, Finding, PricedLink, find
from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.speculation import Speculation, speculation
from rpcwire.reading import Progress, Sources
from rpcwire.runs.words import PHASES, ROLES

SCHEMA_VERSION = 1
#: Part of a token's time below which a difference is none, and nothing explains it.
EQUAL = 0.01


@dataclass(slots=True)
class Side:
    """One run, per generated token; times on the link that it is priced on.

    Attributes:
        name: the file. tokens: generated tokens that figures divide by.
        ms, client_ms, network_ms, server_ms: of a token.
        prompt_ms: of a prompt token. load_s, load_bytes: of the load.
        speculation: the account of drafts, None without.
    """

    name: str
    link: PricedLink
    tokens: int
    bytes_up: float
    bytes_down: float
    round_trips: float
    ms: float | None
    client_ms: float | None
    network_ms: float | None
    server_ms: float | None
    prompt_ms: float | None
    load_s: float
    load_bytes: int
    speculation: Speculation | None
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        rounds = None
        if self.speculation is not None:
            s = self.speculation
            each = self.tokens / s.rounds
            rounds = {
                "rounds": s.rounds,
                "ms": s.round_ms,
                "tokens": s.tokens_per_round,
                "acceptance": s.acceptance,
                "bytes_up": self.bytes_up * each,
                "bytes_down": self.bytes_down * each,
                "round_trips": self.round_trips * each,
            }
        return {
            "file": self.name,
            "link": self.link.name,
            "tokens": self.tokens,
            "per_token": {
                "bytes_up": self.bytes_up,
                "bytes_down": self.bytes_down,
                "round_trips": self.round_trips,
                "ms": self.ms,
                "client_ms": self.client_ms,
                "network_ms": self.network_ms,
                "server_ms": self.server_ms,
            },
            "per_round": rounds,
            "prompt_ms_per_token": self.prompt_ms,
            "load_s": self.load_s,
            "load_bytes": self.load_bytes,
        }


@dataclass(slots=True)
class Change:
    """One phase and role (or a time that is no frame's), per generated token in both runs.

    Attributes:
        phase, role: "" and "client" or "workers" for what the ends take themselves, "network" for
            what frames do not explain of the time on the wire.
        bytes_a, trips_a, ms_a (and _b): bytes, round trips and milliseconds on the run's link.
        explains: part of the difference in ms between the runs; None where there is none.
    """

    phase: str
    role: str
    bytes_a: float
    bytes_b: float
    trips_a: float
    trips_b: float
    ms_a: float
    ms_b: float
    explains: float | None = None

    @property
    def ms(self) -> float:
        """Milliseconds more in the second run."""
        return self.ms_b - self.ms_a

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        return {
            "phase": self.phase or None,
            "role": self.role,
            "a": {"bytes": self.bytes_a, "round_trips": self.trips_a, "ms": self.ms_a},
            "b": {"bytes": self.bytes_b, "round_trips": self.trips_b, "ms": self.ms_b},
            "bytes_more": self.bytes_b - self.bytes_a,
            "round_trips_more": self.trips_b - self.trips_a,
            "ms_more": self.ms,
            "explains": self.explains,
        }


@dataclass(slots=True)
class Comparison:
    """Two runs.

    Attributes:
        changes: the largest difference in milliseconds first.
        only_a, only_b: findings whose id only one run has.
        ends: exact times, when both captures are of one run.
        notes: what to know before believing it.
    """

    a: Side
    b: Side
    changes: list[Change]
    only_a: list[Finding]
    only_b: list[Finding]
    ends: BothEnds | None
    notes: list[str]

    @property
    def ms_more(self) -> float | None:
        """Milliseconds a token more in the second run."""
        if self.a.ms is None or self.b.ms is None:
            return None
        return self.b.ms - self.a.ms

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "ms_more_per_token": self.ms_more,
            "changes": [change.to_dict() for change in self.changes],
            "only_a": [finding.to_dict() for finding in self.only_a],
            "only_b": [finding.to_dict() for finding in self.only_b],
            "speculation": {
                "a": None if self.a.speculation is None else self.a.speculation.to_dict(),
                "b": None if self.b.speculation is None else self.b.speculation.to_dict(),
            },
            "both_ends": None if self.ends is None else self.ends.to_dict(),
            "notes": self.notes,
        }


def compare(
    a: Sources,
    b: Sources,
    *,
    ports: Container[int] | None = None,
    link: PricedLink | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two runs, or two captures of one.

    Args:
        a: the first run's captures.
        b: the second's.
        ports: only connections with one of these ports; None finds them all.
        link: the link to price both on; None takes each one's own.
        progress: see analysis.analyze.

    Raises:
        CaptureError: nothing in an input is a capture, or it cannot be read.
    """
    first, second = (_facts(paths, ports, link, progress) for paths in (a, b))
    side_a, side_b = _side(first), _side(second)
    for side, facts, other, plain in (
        (side_a, first, side_b, second),
        (side_b, second, side_a, first),
    ):
        if side.speculation is not None and other.speculation is None and other.ms is not None:
            side.speculation = speculation(facts, other.ms / plain.at_once)
    ids_a, ids_b = ({f.id for f in side.findings} for side in (side_a, side_b))
    ends = both_ends(first, second)
    return Comparison(
        a=side_a,
        b=side_b,
        changes=_changes(first, second, side_a, side_b),
        only_a=[f for f in side_a.findings if f.id not in ids_b],
        only_b=[f for f in side_b.findings if f.id not in ids_a],
        ends=ends,
        notes=_notes(side_a, side_b, ends),
    )


def _facts(
    paths: Sources, ports: Container[int] | None, link: PricedLink | None, progress: Progress | None
) -> Facts:
    _, facts = accounted(
        paths,
        ports=ports,
        gguf=None,
        since=None,
        until=None,
        request=None,
        progress=progress,
        link=link,
        evidence=TracedEvidence(),
    )
    return facts


def _side(facts: Facts) -> Side:
    token, cell = facts.analysis.per_token, facts.generation
    load = facts.analysis.phases["load"]
    network = token.network_ms
    if not (facts.link is facts.recorded and facts.link.recorded):
        network = facts.link.ms(facts.per_token(cell.bytes), facts.per_token(cell.trips))
        network *= facts.at_once
    return Side(
        name=", ".join(facts.analysis.capture.files),
        link=facts.link,
        tokens=facts.tokens,
        bytes_up=facts.per_token(cell.up),
        bytes_down=facts.per_token(cell.down),
        round_trips=facts.per_token(cell.trips),
        ms=facts.token_ms,
        client_ms=facts.client_ms,
        network_ms=network if facts.token_ms is not None else None,
        server_ms=facts.server_ms,
        prompt_ms=facts.prompt_ms,
        load_s=load.duration_s,
        load_bytes=load.bytes_up + load.bytes_down,
        speculation=speculation(facts),
        findings=find(facts),
    )


def _changes(a: Facts, b: Facts, side_a: Side, side_b: Side) -> list[Change]:
    found = []
    for phase in PHASES:
        for role in ROLES:
            x = a.tallies.sum(phases=(phase,), roles=(role,), moments=(TOKENS,))
            y = b.tallies.sum(phases=(phase,), roles=(role,), moments=(TOKENS,))
            if not x.frames and not y.frames:
                continue
            sizes = a.per_token(x.bytes), b.per_token(y.bytes)
            trips = a.per_token(x.trips), b.per_token(y.trips)
            ms_a = a.link.ms(sizes[0], trips[0]) * a.at_once
            ms_b = b.link.ms(sizes[1], trips[1]) * b.at_once
            found.append(Change(phase, role, *sizes, *trips, ms_a, ms_b))
    on_wire = sum(c.ms_a for c in found), sum(c.ms_b for c in found)
    for role, x_ms, y_ms in (
        ("client", side_a.client_ms, side_b.client_ms),
        ("workers", side_a.server_ms, side_b.server_ms),
        ("network", _more(side_a.network_ms, on_wire[0]), _more(side_b.network_ms, on_wire[1])),
    ):
        if x_ms is not None and y_ms is not None and (abs(x_ms) > 1e-9 or abs(y_ms) > 1e-9):
            found.append(Change("", role, 0, 0, 0, 0, x_ms, y_ms))
    if side_a.ms and side_b.ms and abs(side_b.ms - side_a.ms) >= EQUAL * side_a.ms:
        for change in found:
            change.explains = change.ms / (side_b.ms - side_a.ms)
    return sorted(found, key=lambda c: -abs(c.ms))


def _more(measured: float | None, explained: float) -> float | None:
    return None if measured is None else measured - explained


def _notes(a: Side, b: Side, ends: BothEnds | None) -> list[str]:
    notes = []
    if ends is not None:
        where = {"a": (a.name, b.name), "b": (b.name, a.name)}[ends.client_side]
        notes.append(
            f"both captures are of one run: {where[0]} was taken nearer to the client, "
            f"{where[1]} nearer to the worker"
        )
    notes.extend(
        f"{side.name} holds no generated token: nothing can be said per token"
        for side in (a, b)
        if not side.tokens
    )
    if ends is None and a.link.name != b.link.name:
        notes.append(f"the runs are priced on different links: {a.link.name}; {b.link.name}")
    return notes

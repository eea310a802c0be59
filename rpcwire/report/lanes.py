"""A sample as lanes: when the client, the wire and each worker were busy.

A worker computes from a graph's (or blocking request's) last byte to its response's first, less the
way there and back; the wire carries frames and that way; the rest is the client's. This is how the
time of a token is split in the accounts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.report.samples import Sample

Interval = tuple[int, int]
Server = tuple[str, int]
_GRAPHS = ("GRAPH_COMPUTE", "GRAPH_RECOMPUTE")


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture; intervals in ns from the sample's start, sorted and disjoint."""

    label: str
    kind: str  #: client, wire or worker
    intervals: list[Interval]

    @property
    def busy_ns(self) -> int:
        """How long it was busy."""
        return sum(end - start for start, end in self.intervals)


def lanes(sample: Sample, ways: Mapping[Server, int]) -> list[Lane]:
    """Client, wire and workers of a sample.

    Args:
        sample: what happened.
        ways: by worker, nanoseconds from the capture point to it and back; 0 or left out where it
            is not known.
    """
    wire: list[Interval] = []
    computing: dict[tuple[Server, int], list[Interval]] = {}
    submitted: dict[tuple[int, int], int] = {}
    for e in sample.exchanges:
        place = (e.connection, e.device)
        sent, answered = e.up_ns, e.down_ns
        if sent[0] >= 0:
            wire.append(sent)
        if e.command in _GRAPHS and sent[0] >= 0:
            submitted[place] = sent[1]
        if answered[0] < 0:
            continue
        wire.append(answered)
        begun = submitted.pop(place, sent[1])
        if begun < 0 or answered[0] <= begun:
            continue
        half = min(ways.get(e.server, 0), answered[0] - begun) // 2
        wire += [(begun, begun + half), (answered[0] - half, answered[0])]
        computing.setdefault((e.server, e.device), []).append((begun + half, answered[0] - half))
    return _rows(sample, wire, computing)


def _rows(
    sample: Sample, wire: list[Interval], computing: dict[tuple[Server, int], list[Interval]]
) -> list[Lane]:
    """The lanes, relative to the sample's start."""
    origin, length = sample.start_ns, sample.duration_ns
    carried = united(wire, origin, length)
    several = len({server for server, _ in computing}) < len(computing)
    workers = []
    for (server, device), spans in sorted(computing.items()):
        name = f"worker {endpoint(server)}" + (f" device {device}" if several else "")
        workers.append(Lane(name, "worker", united(spans, origin, length)))
    busy = united([*carried, *(i for w in workers for i in w.intervals)], 0, length)
    idle = Lane("client", "client", _gaps(busy, length))
    return [idle, Lane("wire", "wire", carried), *workers]


def united(spans: Iterable[Interval], origin: int, length: int) -> list[Interval]:
    """The union of intervals, from an origin on, within [0, length]."""
    found: list[Interval] = []
    for start, end in sorted(spans):
        a, b = max(0, start - origin), min(length, end - origin)
        if b <= a:
            continue
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], b))
        else:
            found.append((a, b))
    return found


def exclusive(rows: list[Lane], length: int) -> tuple[int, int, int]:
    """Nanoseconds of client, wire and workers, where each moment counts once: workers first."""
    workers = united(
        (i for lane in rows if lane.kind == "worker" for i in lane.intervals), 0, length
    )
    client = sum(lane.busy_ns for lane in rows if lane.kind == "client")
    computing = sum(end - start for start, end in workers)
    return client, max(0, length - client - computing), computing


def _gaps(busy: list[Interval], length: int) -> list[Interval]:
    gaps, at = [], 0
    for start, end in busy:
        if start > at:
            gaps.append((at, start))
        at = end
    if at < length:
        gaps.append((at, length))
    return gaps

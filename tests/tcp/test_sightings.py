"""The same connection seen at several points counts once; two connections are never merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from rpcwire.capture.segments import ACK, FIN, SYN

from .wire import CLIENT, MS, SERVER, Segment, Stream, down, read, up

X, Y = 3_111_222_333, 1_777_888_999
ROUTER = ("192.0.2.1", 61000)
INSIDE = ("172.17.0.2", 50052)


def talk(rounds: int = 12, x: int = X, y: int = Y, *, syn: bool = True) -> list[Segment]:
    segments = []
    if syn:
        segments += [up(x - 1, flags=SYN), down(y - 1, ack=x, flags=SYN | ACK), up(x, ack=y)]
    for i in range(rounds):
        segments.append(up(x, b"request %d" % i, y))
        x += len(segments[-1].payload)
        segments.append(down(y, b"answer %d" % i, x))
        y += len(segments[-1].payload)
        segments.append(up(x, ack=y))
    segments += [up(x, flags=FIN | ACK, ack=y), down(y, flags=FIN | ACK, ack=x + 1)]
    return segments


def translate(segment: Segment) -> Segment:
    """The segment on the far side of a router that changes both addresses."""
    names = {CLIENT: ROUTER, SERVER: INSIDE}
    return replace(segment, src=names[segment.src], dst=names[segment.dst])


def both(segments: Iterable[Segment]) -> list[Segment]:
    """Up: near side first; down: far side first."""
    found = []
    for segment in segments:
        pair = [segment, translate(segment)]
        found += pair if segment.src == CLIENT else pair[::-1]
    return found


def twice(segments: Iterable[Segment]) -> list[Segment]:
    return [copy for segment in segments for copy in (segment, segment)]


def check(streams: list[Stream], alone: Stream) -> None:
    [s] = streams
    both_ways = {s.connection.endpoints, s.connection.endpoints[::-1]}
    assert {s.bytes(0), s.bytes(1)} == {alone.bytes(0), alone.bytes(1)}
    assert both_ways & {(CLIENT, SERVER), (ROUTER, INSIDE)}
    assert s.connection.sides[0].missing == s.connection.sides[1].missing == 0
    assert s.connection.retransmitted_bytes == 0
    assert s.connection.duplicated_bytes == len(alone.bytes(0)) + len(alone.bytes(1))


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("cuts", [(), range(1, 200), (3, 7, 20), (2,)])
@pytest.mark.parametrize("way", [both, twice])
def test_seen_twice(
    way: Callable[[Iterable[Segment]], list[Segment]], cuts: Iterable[int], syn: bool
) -> None:
    segments = talk(syn=syn)
    [alone] = read(segments)
    found = read(way(segments), cuts)
    check(found, alone)
    assert len(found[0].connection.points) == (2 if way is both else 1)
    assert found[0].connection.packets == 2 * len(segments)
    assert [p.known for p in found[0].sides[0]] == [
        p.known for p in read(way(segments))[0].sides[0]
    ]


@pytest.mark.parametrize("drop", [1, 2, 3, 6])
def test_a_sighting_that_begins_in_the_middle(drop: int) -> None:
    [s] = read(both(talk(30, syn=False))[drop:])
    assert len(s.connection.points) == 2
    assert s.connection.sides[0].missing == s.connection.sides[1].missing == 0
    [alone] = read(talk(30, syn=False))
    streams = sorted([alone.bytes(0), alone.bytes(1)])
    for whole, seen in zip(streams, sorted([s.bytes(0), s.bytes(1)]), strict=True):
        assert whole.endswith(seen)
        assert len(whole) - len(seen) <= len(b"request 0" + b"request 1")


def test_what_one_point_missed_the_other_has() -> None:
    segments = both(talk(20))
    [alone] = read(talk(20))
    thinned = [x for i, x in enumerate(segments) if i < 12 or i % 5]
    [s] = read(thinned)
    assert (s.bytes(0), s.bytes(1)) == (alone.bytes(0), alone.bytes(1))


@pytest.mark.parametrize("x,y", [(0, 0), (1000, 5000), (1, 1)])
@pytest.mark.parametrize("syn", [True, False])
def test_numbers_made_by_tools_prove_nothing(x: int, y: int, syn: bool) -> None:
    segments = talk(5, x, y, syn=syn)
    streams = read(both(segments))
    assert len(streams) == 2
    assert streams[0].bytes(0) + streams[0].bytes(1)
    assert len(streams[0].connection.points) == 1


@pytest.mark.parametrize("syn", [True, False])
def test_other_numbers_are_other_connections(syn: bool) -> None:
    a = talk(8, syn=syn)
    b = [translate(s) for s in talk(8, X + 1, Y, syn=syn)]
    streams = read([s for pair in zip(a, b, strict=True) for s in pair])
    assert len(streams) == 2
    assert streams[0].bytes(0) == streams[1].bytes(0)


def test_one_direction_alone_is_no_proof() -> None:
    a = talk(40, syn=False)
    b = [translate(s) for s in talk(40, X, Y + 70_000, syn=False)]
    streams = read([s for pair in zip(a, b, strict=True) for s in pair])
    assert len(streams) == 2


def test_a_router_that_reuses_its_port() -> None:
    first, second = both(talk(4)), both(talk(6, X + 12345678, Y + 87654321))
    streams = read([*first, *second])
    assert [len(s.connection.points) for s in streams] == [2, 2]
    assert [s.bytes(0).count(b"request") for s in streams] == [4, 6]
    own = [translate(s) for s in talk(3, X + 999_999, Y + 999_999)]
    streams = read([*first, *own])
    assert [s.bytes(0).count(b"request") for s in streams] == [4, 3]
    assert streams[1].connection.endpoints == (ROUTER, INSIDE)


def test_the_same_numbers_much_later_are_another_connection() -> None:
    late = [replace(translate(s), time_ns=(5000 + i) * MS) for i, s in enumerate(talk(4))]
    assert len(read([*talk(4), *late])) == 2

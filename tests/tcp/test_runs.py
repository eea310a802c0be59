"""Runs with holes, taken many segments at a time, against the same packet by packet."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.capture.segments import ACK, FIN, SYN
from rpcwire.tcp import Limits

from .test_property import DATA, summary
from .wire import MS, Segment, down, read, up

X, Y = 4_294_960_000, 4_294_966_000
PATIENCE = st.builds(
    Limits,
    acked_packets=st.sampled_from([1, 5, 40, 256]),
    acked_ns=st.sampled_from([MS // 2, 3 * MS, 1000 * MS]),
    sent_packets=st.sampled_from([3, 60, 4096]),
    sent_ns=st.sampled_from([MS, 10_000 * MS]),
    held_bytes=st.sampled_from([50, 1000, 1 << 24]),
    held_pieces=st.sampled_from([2, 30, 8192]),
)


def conversation(rng: random.Random, count: int) -> list[Segment]:
    """Requests, answers and acknowledgements, each segment of 1 to 30 bytes; some cut."""
    segments = [up(X - 1, flags=SYN), down(Y - 1, ack=X, flags=SYN | ACK), up(X, ack=Y)]
    sent, heard = [0, 0], [0, 0]
    clock, side = 0, 0
    while len(segments) < count:
        side ^= rng.random() < 0.3
        size = rng.choice([0, 0, 1, 1, 8, 30])
        if rng.random() < 0.7:
            heard[1 - side] = sent[1 - side]
        start = sent[side] % 2000
        payload = DATA[start : start + size]
        make, own, other = (down, Y, X) if side else (up, X, Y)
        clock += rng.choice([0, 1000, MS // 10, MS // 10]) - (rng.random() < 0.02) * MS // 2
        segments.append(
            make(
                own + sent[side],
                payload[: size - (rng.random() < 0.05)] if size else b"",
                other + heard[1 - side],
                length=size,
                time_ns=1000 * MS + clock,
            )
        )
        sent[side] += size
    return segments


def disturbed(rng: random.Random, segments: list[Segment], kinds: set[str]) -> list[Segment]:
    """Lose, move and repeat segments."""
    if "one side" in kinds:
        segments = [s for s in segments if s.src == segments[0].src]
    keyed = []
    for i, segment in enumerate(segments):
        if "lost" in kinds and rng.random() < 0.06:
            continue
        late = rng.choice([2.5, 9.5, 40.5]) if "late" in kinds and rng.random() < 0.03 else 0
        keyed.append((i + late, segment))
        if "again" in kinds and rng.random() < 0.03:
            keyed.append((i + rng.choice([0.2, 4.2, 30.2]), segment))
        if "far" in kinds and rng.random() < 0.01:
            keyed.append((i + 0.3, replace(segment, ack=(segment.ack + 70) % 2**32)))
    return [segment for _, segment in sorted(keyed, key=lambda item: item[0])]


KINDS = ("lost", "one side", "late", "again", "far")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1 << 32), st.sets(st.sampled_from(KINDS)), st.integers(20, 500),
    st.lists(st.integers(1, 500), max_size=3), st.none() | PATIENCE,
)  # fmt: skip
def test_many_at_once_equal_one_by_one(
    seed: int, kinds: set[str], count: int, cuts: list[int], limits: Limits | None
) -> None:
    rng = random.Random(seed)
    segments = disturbed(rng, conversation(rng, count), kinds)
    if rng.random() < 0.3:
        last = segments[-1]
        segments.append(replace(last, payload=b"", length=0, flags=FIN | ACK))
    many = read(segments, cuts, limits)
    single = read(segments, range(1, len(segments)), limits)
    assert [summary(s) for s in many] == [summary(s) for s in single]


@pytest.mark.parametrize("kinds", [{"lost"}, {"one side"}, {"one side", "lost"}])
def test_holes_do_not_leave_the_fast_path(kinds: set[str], monkeypatch: object) -> None:
    from rpcwire.tcp.connection import Connection

    slowly = 0
    packet = Connection.packet

    def counted(self: Connection, one: object) -> object:
        nonlocal slowly
        slowly += 1
        return packet(self, one)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "packet", counted)  # type: ignore[attr-defined]
    rng = random.Random(5)
    segments = disturbed(rng, conversation(rng, 4000), kinds)
    [s] = read(segments)
    assert s.connection.packets == len(segments)
    assert any(half.missing for half in s.connection.sides)
    assert slowly < 0.05 * len(segments)

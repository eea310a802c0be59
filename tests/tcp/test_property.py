"""Any stream, cut, shuffled, repeated and thinned in any way, comes out again, holes named."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.capture.segments import ACK, FIN, SYN
from rpcwire.tcp import Limits

from .wire import Segment, Stream, down, read, up

DATA = bytes((i * 7 + i // 251) % 256 for i in range(3000))
NEVER = Limits(acked_packets=1 << 30, acked_ns=1 << 60, sent_packets=1 << 30, sent_ns=1 << 60)


@dataclass
class Case:
    """Segments of a conversation, and how they are cut into batches."""

    segments: list[Segment]
    cuts: list[int]


@st.composite
def conversations(draw: st.DrawFn, *, start: bool = True) -> Case:
    """Payload of both directions in segments of random length, in order, with acks."""
    x = draw(st.integers(0, 2**32 - 1))
    y = draw(st.integers(0, 2**32 - 1))
    segments = []
    if start:
        segments += [up(x - 1, flags=SYN), down(y - 1, ack=x, flags=SYN | ACK), up(x, ack=y)]
    sent = [0, 0]
    sizes = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=90))
    for downwards, size in sizes:
        side = int(downwards)
        payload = DATA[sent[side] : sent[side] + size]
        make, own, other = (down, y, x) if downwards else (up, x, y)
        segments.append(make(own + sent[side], payload, other + sent[1 - side]))
        sent[side] += size
    segments += [
        up(x + sent[0], flags=FIN | ACK, ack=y + sent[1]),
        down(y + sent[1], flags=FIN | ACK, ack=x + sent[0] + 1),
        up(x + sent[0] + 1, ack=y + sent[1] + 1),
    ]
    cuts = draw(st.lists(st.integers(1, 120), max_size=12))
    return Case(segments, cuts)


def totals(segments: list[Segment]) -> dict[str, int]:
    return {
        src: sum(len(s.payload) for s in segments if s.src[0] == src)
        for src in ("10.0.0.1", "10.0.0.2")
    }


def summary(stream: Stream) -> tuple[object, ...]:
    c = stream.connection
    return (
        stream.sides,
        c.packets,
        c.opened_ns,
        c.closed_ns,
        c.last_ns,
        c.handshake_ns,
        c.stray_packets,
        [
            (h.next, h.missing, h.truncated, h.repeated, h.repeats, h.out_of_order, h.packets,
             h.segments, h.payload_bytes, h.acked, h.rtt.count, h.rtt.minimum, h.rtt.median)
            for h in c.sides
        ],
    )  # fmt: skip


@given(conversations())
def test_in_order(case: Case) -> None:
    [s] = read(case.segments, case.cuts)
    for side, total in enumerate(totals(case.segments).values()):
        assert s.bytes(side) == DATA[:total]
        assert s.connection.sides[side].repeats == 0
    [whole] = read(case.segments)
    [single] = read(case.segments, range(len(case.segments)))
    assert summary(s) == summary(whole) == summary(single)


@st.composite
def disturbed(draw: st.DrawFn) -> Case:
    """The same with segments moved, repeated, joined and cut differently."""
    case = draw(conversations())
    head, body = case.segments[:3], case.segments[3:-3]
    more: list[tuple[float, Segment]] = []
    for i, segment in enumerate(body):
        late = draw(st.sampled_from([0, 0, 0, 0, 2, 5]))
        more.append((i + late, segment))
        if segment.payload and draw(st.integers(0, 4)) == 0:
            side = segment.src
            again = [s for s in body[max(0, i - 6) : i + 1] if s.src == side]
            joined = b"".join(s.payload for s in again)
            a = draw(st.integers(0, len(joined)))
            b = draw(st.integers(a, len(joined)))
            piece = replace(segment, seq=(again[0].seq + a) % 2**32, payload=joined[a:b])
            more.append((i + draw(st.integers(0, 8)) + 0.5, piece))
    body = [segment for _, segment in sorted(more, key=lambda item: item[0])]
    return Case(head + body + case.segments[-3:], case.cuts)


@given(disturbed())
def test_reordered_repeated_and_cut_differently(case: Case) -> None:
    [s] = read(case.segments, case.cuts)
    payload = totals(case.segments)
    for side, src in enumerate(payload):
        half = s.connection.sides[side]
        assert s.bytes(side) == DATA[: half.next]
        assert half.missing == 0
        assert half.next + half.repeated == payload[src]
    assert summary(s) == summary(read(case.segments)[0])


@given(disturbed(), st.data())
@settings(deadline=None)
def test_lost_segments_are_holes_of_exactly_their_size(case: Case, data: st.DataObject) -> None:
    keep = data.draw(
        st.lists(
            st.sampled_from([True, True, True, False]),
            min_size=len(case.segments), max_size=len(case.segments),
        )
    )  # fmt: skip
    keep[0] = keep[1] = keep[-1] = keep[-2] = keep[-3] = True
    whole = _lengths(case.segments)
    segments = [s for s, k in zip(case.segments, keep, strict=True) if k]
    for limits in (None, NEVER):
        [s] = read(segments, case.cuts, limits)
        for side, (src, total) in enumerate(whole.items()):
            expected = _reference(segments, src, total)
            assert s.bytes(side) == expected
            assert s.connection.sides[side].missing == _missing(segments, src, total)
        assert summary(s) == summary(read(segments, (), limits)[0])


def _base(segments: list[Segment], src: str) -> int:
    return next(s.seq for s in segments if s.src[0] == src and s.flags & SYN) + 1


def _lengths(segments: list[Segment]) -> dict[str, int]:
    """Stream lengths, as the FINs tell."""
    return {
        src: (next(s.seq for s in segments if s.src[0] == src and s.flags & FIN)
              - _base(segments, src)) % 2**32
        for src in ("10.0.0.1", "10.0.0.2")
    }  # fmt: skip


def _reference(segments: list[Segment], src: str, total: int) -> bytes:
    """The naive way: an array of bytes, the first copy of each wins."""
    found = bytearray(b"-" * total)
    seen = bytearray(total)
    base = _base(segments, src)
    for s in segments:
        if s.src[0] == src:
            for i, byte in enumerate(s.payload, (s.seq - base) % 2**32 if s.payload else 0):
                if not seen[i]:
                    seen[i] = 1
                    found[i] = byte
    return bytes(found)


def _missing(segments: list[Segment], src: str, total: int) -> int:
    base = _base(segments, src)
    seen: set[int] = set()
    for s in segments:
        if s.src[0] == src and s.payload:
            at = (s.seq - base) % 2**32
            seen.update(range(at, at + len(s.payload)))
    return total - len(seen)


@given(conversations(start=False), st.data())
def test_from_the_middle(case: Case, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(case.segments) - 1))
    segments = case.segments[first:]
    [s] = read(segments, case.cuts)
    whole = totals(case.segments)
    sent = totals(case.segments[:first])
    for side in (0, 1):
        src = s.connection.endpoints[side][0]
        assert s.bytes(side) == DATA[sent[src] : whole[src]]
    assert summary(s) == summary(read(segments)[0])


NUMBERS = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))


@given(
    st.lists(
        st.builds(
            lambda upwards, seq, ack, size, flags, t, cut: (up if upwards else down)(
                seq, bytes(max(size - cut, 0)), ack, flags=flags, length=size, time_ns=t
            ),
            st.booleans(), NUMBERS, NUMBERS, st.integers(0, 300), st.integers(0, 31),
            st.integers(0, 2**62), st.integers(0, 30),
        ),
        max_size=80,
    ),
    st.lists(st.integers(1, 80), max_size=8),
)  # fmt: skip
@settings(deadline=None)
def test_anything_at_all(segments: list[Segment], cuts: list[int]) -> None:
    streams = read(segments, cuts)
    assert sum(s.connection.packets + s.connection.stray_packets for s in streams) == len(segments)
    payload = sum(s.length or 0 for s in segments)
    delivered = sum(
        p.end - p.start for s in streams for side in s.sides for p in side if p.data is not None
    )
    again = sum(h.repeated for s in streams for h in s.connection.sides)
    stray = sum(s.connection.stray_bytes for s in streams)
    assert delivered + again + stray == payload
    for s in streams:
        for side, half in zip(s.sides, s.connection.sides, strict=True):
            assert (side[-1].end if side else 0) == half.next
            assert half.missing == sum(p.end - p.start for p in side if p.data is None)


@given(conversations(), st.integers(2, 12), st.data())
@settings(deadline=None)
def test_long_runs_equal_single_steps(case: Case, times: int, data: st.DataObject) -> None:
    """Runs long enough for the fast path, with moved segments, against packet by packet."""
    head, body = case.segments[:3], [s for s in case.segments[3:-3] if s.payload]
    grown: list[Segment] = []
    totals_ = {"10.0.0.1": 0, "10.0.0.2": 0}
    for i in range(times * len(body)):
        s = body[i % len(body)]
        other = "10.0.0.2" if s.src[0] == "10.0.0.1" else "10.0.0.1"
        base, ack = (head[0], head[1]) if s.src[0] == "10.0.0.1" else (head[1], head[0])
        grown.append(
            replace(
                s,
                seq=(base.seq + 1 + totals_[s.src[0]]) % 2**32,
                ack=(ack.seq + 1 + totals_[other]) % 2**32,
            )
        )
        totals_[s.src[0]] += len(s.payload)
    if grown:
        for i in data.draw(st.lists(st.integers(0, len(grown) - 1), max_size=3)):
            grown.insert(min(i + 4, len(grown)), grown.pop(i))
    segments = head + grown
    [whole] = read(segments, case.cuts)
    [single] = read(segments, range(len(segments)))
    assert summary(whole) == summary(single)
    assert [whole.connection.sides[side].next for side in (0, 1)] == list(totals_.values())

"""Holes, repeats, overlaps: this segment arrives, that piece comes out."""

from __future__ import annotations

import pytest

from rpcwire.capture.segments import ACK, FIN, RST, SYN
from rpcwire.tcp import Assembler, Limits

from .wire import MS, Segment, batch, deliveries, down, pieces, read, up

X, Y = 4_294_967_000, 2_000_000_000


def open_(x: int = X, y: int = Y) -> list[Segment]:
    return [up(x, flags=SYN), down(y, ack=x + 1, flags=SYN | ACK), up(x + 1, ack=y + 1)]


def client(off: int, payload: bytes, **more: object) -> Segment:
    return up(X + 1 + off, payload, Y + 1, **more)


def acked(off: int, **more: object) -> Segment:
    return down(Y + 1, b"", X + 1 + off, **more)


def close(up_bytes: int, down_bytes: int = 0) -> list[Segment]:
    return [
        up(X + 1 + up_bytes, flags=FIN | ACK, ack=Y + 1 + down_bytes),
        down(Y + 1 + down_bytes, flags=FIN | ACK, ack=X + 2 + up_bytes),
        up(X + 2 + up_bytes, ack=Y + 2 + down_bytes),
    ]


def test_reordered_pieces_keep_their_packet_and_tell_when_they_were_known() -> None:
    [s] = read([*open_(), client(3, b"def"), client(6, b"ghi"), client(0, b"abc")])
    assert s.bytes(0) == b"abcdefghi"
    assert [(p.number, p.known) for p in s.sides[0]] == [(6, 5), (4, 5), (5, 5)]
    assert s.connection.sides[0].out_of_order == 1


@pytest.mark.parametrize("cuts", [(), range(1, 9), (4,), (5,)])
def test_held_payload_survives_its_batch(cuts: object) -> None:
    [s] = read([*open_(), client(3, b"def"), client(6, b"ghi"), client(0, b"abc")], cuts)
    assert s.bytes(0) == b"abcdefghi"


def test_retransmission_counts_once() -> None:
    [s] = read([
        *open_(), client(0, b"abc"), client(3, b"def"), client(0, b"XYZ"),
        *(client(6 + i, b".") for i in range(9)),
    ])  # fmt: skip
    assert s.bytes(0) == b"abcdef........."
    assert s.connection.retransmitted_bytes == 3
    assert s.connection.duplicated_bytes == 0


def test_overlap_first_copy_wins() -> None:
    [s] = read([*open_(), client(0, b"abcd"), client(2, b"XXef"), client(8, b"ij"),
                client(4, b"YYghZZ"), client(10, b"k")])  # fmt: skip
    assert s.bytes(0) == b"abcdefghijk"
    assert s.connection.sides[0].repeated == 2 + 2 + 2
    [s] = read([*open_(), client(2, b"cd"), client(6, b"gh"), client(0, b"abXXefYYij")])
    assert s.bytes(0) == b"abcdefghij"


def test_every_segment_twice_is_a_copy_not_a_retransmission() -> None:
    once = [*open_(), client(0, b"abc"), acked(3), client(3, b"def"), acked(6), *close(6)]
    [s] = read([x for segment in once for x in (segment, segment)])
    assert s.bytes(0) == b"abcdef"
    assert s.connection.copies
    assert s.connection.duplicated_bytes == 6
    assert s.connection.retransmitted_bytes == 0


def test_acked_hole_is_lost_after_a_second_or_enough_packets() -> None:
    t = 1000 * MS
    lost = [*open_(), client(0, b"abc"), client(5, b"fgh"), acked(8)]
    at = [n * 10_000 for n in range(1, 7)]
    early = [*lost, acked(8, time_ns=at[-1] + t - 1)]
    late = [*lost, acked(8, time_ns=at[-1] + t)]

    def spans(segments: list[Segment]) -> list:
        assembler = Assembler()
        found = assembler.feed(batch(segments))
        return pieces([span for d in found for span in d.spans[0]])

    assert [p.data for p in spans(early)] == [b"abc"]
    assert [(p.data, p.number, p.known) for p in spans(late)] == [
        (b"abc", 4, 3),
        (None, 5, 6),
        (b"fgh", 5, 6),
    ]
    many = [*lost, *(acked(8) for _ in range(256))]
    assert [p.data for p in spans(many)] == [b"abc", None, b"fgh"]
    assert [p.data for p in spans(many[:-1])] == [b"abc"]


def test_unacked_hole_waits_for_the_retransmission() -> None:
    [s] = read([
        *open_(), client(0, b"abc"), client(5, b"fgh"), *(acked(3) for _ in range(1000)),
        acked(3, time_ns=9000 * MS), client(3, b"de", time_ns=9001 * MS), acked(8),
    ])  # fmt: skip
    assert s.bytes(0) == b"abcdefgh"
    assert s.connection.sides[0].missing == 0


def test_ack_recorded_before_its_data() -> None:
    [s] = read([*open_(), acked(3), client(0, b"abc"), acked(6), client(3, b"def"), *close(6)])
    assert s.bytes(0) == b"abcdef"
    assert s.connection.sides[0].missing == 0
    assert s.connection.sides[0].rtt.count == 0


def test_holes_at_the_end_are_proved_by_ack_and_fin() -> None:
    [s] = read([*open_(), client(0, b"abc"), acked(10)])
    assert s.bytes(0) == b"abc-------"
    assert s.connection.sides[0].missing == 7
    assert s.sides[0][1].number == 5
    [s] = read([*open_(), client(0, b"abc"), up(X + 11, flags=FIN | ACK, ack=Y + 1)])
    assert s.bytes(0) == b"abc-------"
    [s] = read([*open_(), client(0, b"abc"), *close(3)])
    assert s.bytes(0) == b"abc"
    assert s.connection.sides[0].missing == 0


def test_a_fin_that_was_not_captured_is_no_byte() -> None:
    fin, answer, last = close(3)
    [s] = read([*open_(), client(0, b"abc"), answer, last])
    assert s.bytes(0) == b"abc"
    [s] = read([*open_(), client(0, b"abc"), answer])
    assert s.bytes(0) == b"abc"
    [s] = read([*open_(), client(0, b"abc"), fin, last])
    assert s.bytes(1) == b""
    # Without any sign of an end it is a byte.
    [s] = read([*open_(), client(0, b"abc"), acked(4)])
    assert s.bytes(0) == b"abc-"


def test_one_direction_never_captured() -> None:
    whole = [*open_(), client(0, b"abc"), down(Y + 1, b"12345", X + 4),
             up(X + 4, b"def", Y + 6), down(Y + 6, b"67", X + 7), up(X + 7, ack=Y + 8),
             *close(6, 7)]  # fmt: skip
    [s] = read([x for x in whole if x.src[0] == "10.0.0.1"])
    assert s.bytes(0) == b"abcdef"
    assert s.bytes(1) == b"-" * 7
    assert [(p.end, p.number) for p in s.sides[1]] == [(5, 4), (7, 5)]
    [s] = read([x for x in whole if x.src[0] == "10.0.0.2"])
    assert s.bytes(0) == b"-" * 6
    assert s.bytes(1) == b"1234567"


def test_snap_length() -> None:
    [s] = read([
        *open_(), client(0, b"abc", length=10), client(20, b"uvw", length=5),
        client(10, b"klmnopqrstXX", length=12), client(25, b"z"),
    ])  # fmt: skip
    assert s.bytes(0) == b"abc???????klmnopqrstuvw??z"
    assert s.connection.sides[0].truncated == 7 + 2
    [s] = read([*open_(), client(0, b"abcdef"), client(4, b"XXg", length=8), client(12, b"z")])
    assert s.bytes(0) == b"abcdefg?????z"


def test_probes_and_keepalives_change_nothing() -> None:
    [s] = read([
        *open_(), client(0, b"abc"), acked(3, window=0), client(2, b""), acked(3, window=0),
        client(2, b"?"), acked(3, window=0), client(3, b"d"), acked(3), client(3, b"def"), acked(6),
        down(Y, b"", X + 7), *close(6),
    ])  # fmt: skip
    assert s.bytes(0) == b"abcdef"
    assert s.connection.sides[1].next == 0
    assert s.connection.stray_packets == 0


def test_reset() -> None:
    [s] = read([*open_(), client(0, b"abc"), down(Y + 1, flags=RST | ACK, ack=X + 4)])
    assert s.bytes(0) == b"abc"
    assert s.connection.reset
    assert s.connection.closed_ns == 50_000
    [s] = read([up(X, flags=SYN), down(0, flags=RST | ACK, ack=X + 1)])
    assert s.connection.reset
    assert s.bytes(0) == s.bytes(1) == b""


def test_reused_port_is_another_connection() -> None:
    other = 77_000_000
    first = [*open_(), client(0, b"abc"), *close(3)]
    again = [up(other, flags=SYN), down(Y + 9999, flags=SYN | ACK, ack=other + 1),
             up(other + 1, b"new", Y + 10000)]  # fmt: skip
    a, b = read([*first, *again])
    assert (a.bytes(0), b.bytes(0)) == (b"abc", b"new")
    assert (a.connection.id, b.connection.id) == (0, 1)
    a, b = read([*first[:4], *again], range(1, 20))
    assert (a.bytes(0), b.bytes(0)) == (b"abc", b"new")
    assert a.closed


def test_half_open_peer_comes_back_without_its_syn_captured() -> None:
    far, back = 900_000_000, 3_900_000_000
    segments = [*open_(), client(0, b"abc"), acked(3)]
    for i in range(6):
        segments.append(up(far + i, b"x", back))
        segments.append(down(back, b"", far + i + 1))
    a, b = read(segments)
    assert a.bytes(0) == b"abc"
    assert b.bytes(0) == b"xxxxxx"
    assert a.connection.stray_packets == b.connection.stray_packets == 0


@pytest.mark.parametrize("jump", [1 << 28, 1 << 30, (1 << 31) + 5, 3 << 30])
def test_a_wild_number_proves_nothing(jump: int) -> None:
    segments = [*open_(), client(0, b"abc"), client(jump, b"wild"), acked(jump), client(3, b"def")]
    [s] = read([*segments, *close(6)])
    assert s.bytes(0) == b"abcdef"
    assert s.connection.sides[0].missing == 0
    # An acknowledgement from far behind is just old.
    assert s.connection.stray_packets == 2 - (jump > 1 << 31)
    assert s.connection.stray_bytes == 4


def test_a_long_gap_is_believed_when_both_sides_agree() -> None:
    jump = 500_000_000
    segments = [*open_(), client(0, b"abc"), acked(3)]
    for i in range(6):
        segments += [client(jump + i, b"x"), acked(jump + i + 1)]
    [s] = read([*segments, *close(jump + 6)])
    assert s.connection.sides[0].next == jump + 6
    assert s.connection.sides[0].missing == jump - 3
    assert s.bytes(0)[-6:] == b"xxxxxx"


def test_offsets_pass_four_gigabytes() -> None:
    size = 60_000
    count = (5 << 30) // size
    assembler = Assembler()
    assembler.feed(batch(open_()))
    block = 20_000
    total = 0
    sent = 0
    while sent < count:
        n = min(block, count - sent)
        part = batch([client(0, b"", length=size)] * n)
        part.seq[:] = (X + 1 + (sent + part.number - 1) * size) % 2**32
        for delivery in assembler.feed(part):
            for span in delivery.spans[0]:
                assert span.start == total
                total = span.end
        sent += n
    assert total == count * size > 1 << 32
    [last] = assembler.finish()
    assert last.connection.sides[0].truncated == total
    assert last.connection.sides[0].missing == 0


def test_what_is_held_is_bounded() -> None:
    limits = Limits(held_bytes=1000, held_pieces=50)
    segments = [*open_(), *(client(10 + 2 * i, b"x") for i in range(200))]
    [s] = read(segments, limits=limits)
    assert s.connection.sides[0].missing == 10 + 199
    first = s.sides[0][0]
    assert first.data is None
    assert first.known < 60


def test_ignored_connections_are_counted_not_delivered() -> None:
    assembler = Assembler()
    [first] = assembler.feed(batch([*open_(), client(0, b"abc")]))
    first.connection.ignored = True
    assert assembler.feed(batch([client(3, b"def"), client(8, b"i")])) == []
    [last] = assembler.finish()
    assert last.spans == ([], [])
    assert last.connection.sides[0].next == 9
    assert last.connection.sides[0].missing == 2


def test_ports() -> None:
    assembler = Assembler(ports=range(50000, 51000))
    other = Segment(("10.0.0.1", 5), ("10.0.0.2", 6), 1, 1, b"zzz")
    found = assembler.feed(batch([*open_(), other, client(0, b"abc")])) + assembler.finish()
    assert len({d.connection.id for d in found}) == 1
    assert (assembler.filtered_packets, assembler.filtered_bytes) == (1, 3)


def test_the_table_is_bounded() -> None:
    limits = Limits(connections=64)
    assembler = Assembler(limits=limits)
    live = [*open_(), client(0, b"abc")]
    assembler.feed(batch(live))
    closed = 0
    for i in range(20):
        scan = [Segment((f"10.1.{i}.{k}", 1000), ("10.0.0.2", 50052), 99, flags=SYN)
                for k in range(50)]  # fmt: skip
        closed += sum(d.closed for d in assembler.feed(batch(scan)))
    assert closed >= 1000 - 64
    assert assembler.evicted == closed
    assert assembler.notes()
    [more] = assembler.feed(batch([client(3, b"def")]))
    assert more.connection.id == 0


def test_closed_connections_leave_after_a_while() -> None:
    assembler = Assembler()
    found = assembler.feed(batch([*open_(), client(0, b"abc"), *close(3)]))
    assert not any(d.closed for d in found)
    other = Segment(("10.9.9.9", 1), ("10.0.0.2", 2), 5, time_ns=6000 * MS)
    [gone] = assembler.feed(batch([other]))
    assert gone.closed
    assert gone.connection.id == 0


def test_round_trips() -> None:
    segments = [*open_()]
    t = 10 * MS
    for i in range(100):
        segments.append(client(i, b"x", time_ns=t))
        segments.append(acked(i + 1, time_ns=t + (5 if i % 10 else 1) * MS))
        t += 10 * MS
    for cuts in ((), range(1, 210), (50,)):
        connection = deliveries(segments, cuts)[0].connection
        rtt = connection.sides[0].rtt
        assert (rtt.count, rtt.minimum) == (100, MS)
        assert rtt.median == pytest.approx(5 * MS, rel=0.1)
        assert connection.handshake_ns == [10_000, 10_000]
        assert connection.sides[1].rtt.count == 0

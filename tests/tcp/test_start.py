"""Connections that began before the capture did, or whose first packets are out of order."""

from __future__ import annotations

import pytest

from rpcwire.capture.segments import ACK, SYN

from .wire import MS, Segment, down, read, up

X, Y = 4_294_967_290, 1_234_567_890


def client(off: int, payload: bytes = b"", **more: object) -> Segment:
    return up(X + off, payload, Y, **more)


@pytest.mark.parametrize("cuts", [(), (1,), (2, 3), range(1, 20)])
class TestMiddle:
    def test_offset_zero_is_the_first_byte_seen(self, cuts: object) -> None:
        [s] = read([client(0, b"abc"), down(Y, b"12", X + 3), client(3, b"def")], cuts)
        assert (s.bytes(0), s.bytes(1)) == (b"abcdef", b"12")
        assert not s.connection.initiator_known
        assert s.connection.start_captured == [False, False]

    def test_reordered_at_the_very_start(self, cuts: object) -> None:
        [s] = read([client(6, b"ghi"), client(3, b"def"), client(0, b"abc"), client(9, b"j")], cuts)
        assert s.bytes(0) == b"abcdefghij"
        assert [p.number for p in s.sides[0]] == [3, 2, 1, 4]

    def test_what_was_sent_before_is_not_delivered(self, cuts: object) -> None:
        old = client(-100, b"old")
        [s] = read([client(0, b"abc"), old, client(3, b"def")], cuts)
        assert s.bytes(0) == b"abcdef"
        assert s.connection.sides[0].repeated == 3

    def test_an_earlier_ack_says_where_the_stream_stood(self, cuts: object) -> None:
        [s] = read([client(0), down(Y, b"12", X), client(4, b"ef"), down(Y + 2, b"", X + 6)], cuts)
        assert s.bytes(0) == b"----ef"
        assert s.bytes(1) == b"12"

    def test_only_acks_of_a_side(self, cuts: object) -> None:
        [s] = read([down(Y, b"12", X), down(Y + 2, b"34", X + 10), down(Y + 4, b"5", X + 25)], cuts)
        assert s.bytes(0) == b"12345"
        assert s.bytes(1) == b"-" * 25

    def test_syn_recorded_late(self, cuts: object) -> None:
        [s] = read(
            [
                down(Y - 1, flags=SYN | ACK, ack=X),
                up(X - 1, flags=SYN),
                client(3, b"def"),
                client(0, b"abc"),
            ],
            cuts,
        )
        assert s.bytes(0) == b"abcdef"
        assert s.connection.start_captured == [True, True]
        assert s.connection.endpoints[0] == ("10.0.0.1", 40000)
        [s] = read([down(Y, b"12", X), client(0, b"abc"), up(X - 1, flags=SYN)], cuts)
        assert (s.bytes(0), s.bytes(1)) == (b"abc", b"12")
        assert s.connection.initiator_known
        assert s.connection.endpoints[0] == ("10.0.0.1", 40000)


def test_the_start_is_settled_after_a_while() -> None:
    segments = [client(3, b"def"), client(6, b"g", time_ns=101 * MS), client(0, b"abc")]
    [s] = read(segments)
    assert s.bytes(0) == b"defg"


def test_a_lost_handshake_answer() -> None:
    [s] = read([up(X - 1, flags=SYN), client(0, b"abc"), down(Y, b"12", X + 3)])
    assert (s.bytes(0), s.bytes(1)) == (b"abc", b"12")
    assert s.connection.start_captured == [True, False]

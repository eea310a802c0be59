"""This segment arrives, that span comes out."""

from __future__ import annotations

from rpcwire.capture.segments import ACK, FIN, SYN

from .wire import down, read, up

X, Y = 3_000_000_000, 4_294_967_290


def handshake(x: int = X, y: int = Y) -> list:
    return [
        up(x, flags=SYN),
        down(y, ack=x + 1, flags=SYN | ACK),
        up(x + 1, ack=y + 1),
    ]


def test_in_order() -> None:
    [s] = read([
        *handshake(),
        up(X + 1, b"hello", Y + 1),
        down(Y + 1, b"ok", X + 6),
        up(X + 6, b"again", Y + 3),
        down(Y + 3, b"yes, across the wrap", X + 11),
        up(X + 11, flags=FIN | ACK, ack=Y + 23),
        down(Y + 23, flags=FIN | ACK, ack=X + 12),
        up(X + 12, ack=Y + 24),
    ])  # fmt: skip
    assert s.bytes(0) == b"helloagain"
    assert s.bytes(1) == b"okyes, across the wrap"
    assert [p.number for p in s.sides[0]] == [4, 6]
    assert s.connection.endpoints == (("10.0.0.1", 40000), ("10.0.0.2", 50052))
    assert s.connection.initiator_known
    assert s.connection.start_captured == [True, True]
    assert s.connection.sides[0].missing == s.connection.sides[1].missing == 0
    assert s.closed
    assert s.connection.closed_ns == 90_000

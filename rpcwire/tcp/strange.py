"""Packets whose numbers lie far from where the streams stand: what several of them say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpcwire.tcp.half import Half
from rpcwire.tcp.packet import Packet

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Verdict:
    """What far packets that agree with one another are.

    Attributes:
        another: they belong to another connection.
        side, place: else the stream that goes on at a far offset; None for old packets.
    """

    another: bool
    side: int
    place: int | None


def agrees(packet: Packet, others: Sequence[Packet], near: int) -> bool:
    """Whether a packet lies near all others, in both directions."""
    for other in others:
        same = other.end == packet.end
        seq, ack = (other.seq, other.ack) if same else (other.ack, other.seq)
        if _distance(seq, packet.seq) > near or _distance(ack, packet.ack) > near:
            return False
    return True


def judge(packets: Sequence[Packet], sides: Sequence[Half], flip: int, near: int) -> Verdict:
    """Say what far packets are.

    Args:
        packets: they; `agrees` holds among them.
        sides: the two directions.
        flip: which end of the flow is side 0.
        near: see `Limits`.
    """
    places: list[int] = []
    for side, half in enumerate(sides):
        numbers = [p.seq if p.end ^ flip == side else p.ack for p in packets]
        places.append(0 if half.base is None else min(half.offset(n) for n in numbers))
    far = [
        not half.next - near <= place <= half.top + near
        for half, place in zip(sides, places, strict=True)
    ]
    side = far.index(True) if True in far else 0
    ahead = places[side] > sides[side].top
    return Verdict(all(far), side, places[side] if ahead else None)


def _distance(a: int, b: int) -> int:
    """How far two sequence numbers are apart, the shorter way round."""
    return min((a - b) & _MASK, (b - a) & _MASK)

"""The first packets of a connection whose handshake was not captured, until its start is chosen."""

from __future__ import annotations

from rpcwire.tcp.limits import Limits
from rpcwire.tcp.packet import Packet
from rpcwire.tcp.sightings import Hold

_MASK = 0xFFFFFFFF


class Opening:
    """Keeps packets back.

    Args:
        limits: for how long.
        hold: keeps them longer, while the connection may be another sighting of a known one.

    Attributes:
        packets: they, in order.
    """

    def __init__(self, limits: Limits, hold: Hold) -> None:
        self.packets: list[Packet] = []
        self._limits, self._hold = limits, hold
        self._segments = 0

    def add(self, packet: Packet) -> bool:
        """Keep a packet; whether enough was seen to choose the start."""
        self.packets.append(packet)
        self._segments += packet.length > 0
        until = self._hold.until
        if until is None or packet.order < until:
            return False
        elapsed = packet.time_ns - self.packets[0].time_ns
        return self._limits.started(len(self.packets), self._segments, elapsed)

    def follows(self, syn: Packet) -> bool:
        """Whether the packets follow this SYN, which a reordered capture has late."""
        near = self._limits.near
        return any(
            ((p.seq if p.end == syn.end else p.ack) - syn.seq - 1) & _MASK <= near
            for p in self.packets
        )

    def first_byte(self, end: int) -> int | None:
        """The sequence number of offset 0 of what an end of the flow sent."""
        return _first_byte([p for p in self.packets if p.end == end])


def _first_byte(packets: list[Packet]) -> int | None:
    """The sequence number of offset 0 of a side whose first packets these are.

    The first segment with payload and those that reach down from it without a gap (the capture
    may have reordered them; what lies below a gap was sent before the capture began and only
    repeated), or an earlier packet without payload, which stands where the stream did.
    """
    data = [p for p in packets if p.length]
    if not data:
        return packets[0].seq if packets else None
    anchor = data[0].seq
    base = 0
    for start, end in sorted(
        (((p.seq - anchor + 0x80000000) & _MASK) - 0x80000000,
         ((p.seq - anchor + 0x80000000) & _MASK) - 0x80000000 + p.length)
        for p in data
    )[::-1]:  # fmt: skip
        if start < base <= end:
            base = start
    for packet in packets:
        if packet.length:
            break
        ahead = (anchor + base - packet.seq) & _MASK
        if 0 < ahead <= 1 << 20:
            base -= ahead
            break
    return (anchor + base) & _MASK

"""A TCP connection: which packets belong to it, and what each of them says."""

from __future__ import annotations

from bisect import bisect_right

from rpcwire.capture.segments import ACK, FIN, RST, SYN
from rpcwire.tcp.facts import Facts
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.opening import Opening
from rpcwire.tcp.packet import Bytes, Endpoint, Packet
from rpcwire.tcp.sightings import Hold
from rpcwire.tcp.strange import agrees, judge

_MASK = 0xFFFFFFFF


class Connection(Facts):
    """Takes the packets of one connection, from its first to its last.

    See `Facts` for what it tells.
    """

    def __init__(
        self,
        limits: Limits,
        endpoints: tuple[Endpoint, Endpoint],
        first: Packet,
        hold: Hold | None = None,
    ) -> None:
        super().__init__(limits, endpoints, first)
        self._limits = limits
        self._opening = None if self.initiator_known else Opening(limits, hold or Hold())
        self._strange: list[Packet] = []

    @property
    def ready(self) -> bool:
        """Whether segments can be taken many at a time."""
        return (
            self._opening is None
            and not self._strange
            and self.closed_ns is None
            and self.sides[0].ready
            and self.sides[1].ready
        )

    def awaits(self, side: int) -> bool:
        """Whether the first acknowledgement of a side's SYN, which is timed, is still to come."""
        return self._syn_ns[side] is not None

    def packet(self, packet: Packet) -> list[Packet] | None:
        """Take a packet; packets that turn out to begin another connection are returned."""
        if self.lingered(packet.time_ns):
            return [packet]
        if self._opening is None:
            return self._take(packet)
        return self._wait(packet, self._opening)

    def lingered(self, time_ns: int) -> bool:
        """Whether it ended so long ago that a packet at `time_ns` cannot belong to it."""
        return self.closed_ns is not None and time_ns - self.last_ns > self._limits.linger_ns

    @property
    def held_bytes(self) -> int:
        """Payload bytes kept back, for want of a start or behind a hole."""
        waiting = sum(packet.captured for packet in self._opening.packets) if self._opening else 0
        return waiting + self.sides[0].held.bytes + self.sides[1].held.bytes

    def give_up(self) -> None:
        """Choose a start and declare the holes in front of held payload, to free memory."""
        self._settle()
        for half in self.sides:
            half.give_up(self.last_order)

    def merge(self, ends: tuple[Endpoint, Endpoint], swap: int, begun: Connection | None) -> None:
        """Note another point where the connection is seen.

        Args:
            ends: its addresses there.
            swap: whether they are numbered the other way round.
            begun: what was made of its first packets before it was recognised.
        """
        if (ends, swap) not in self._ends:
            self._ends.append((ends, swap))
        if begun is None:
            return
        self.opened_ns = min(self.opened_ns, begun.opened_ns)
        self.packets += begun.packets
        for end in (0, 1):
            half, other = self.sides[end ^ self.flip], begun.sides[end ^ swap ^ begun.flip]
            half.packets += other.packets

    def kept(self) -> list[Packet]:
        """Take back the packets that were kept for want of a start."""
        opening, self._opening = self._opening, None
        return opening.packets if opening else []

    def own(self, data: Bytes) -> None:
        """Copy payload that is kept back out of the batch's buffer, which is about to go."""
        if self._opening:
            self._opening.packets = [packet.owned(data) for packet in self._opening.packets]
        if self._strange:
            self._strange = [packet.owned(data) for packet in self._strange]
        for half in self.sides:
            half.held.own(data)

    def finish(self) -> None:
        """Nothing more will come: choose a start if that is open, declare the holes."""
        self._settle()
        self._drop_strange()
        ended = [half.fin is not None or self.reset for half in self.sides]
        for half, peer_ended in zip(self.sides, reversed(ended), strict=True):
            half.close(self.last_order, peer_ended=peer_ended)
        if self.closed_ns is None and self.sides[0].fin is not None is not self.sides[1].fin:
            self.closed_ns = self.last_ns

    def _wait(self, packet: Packet, opening: Opening) -> list[Packet] | None:
        """Keep the first packets of a connection that began before the capture did."""
        if packet.flags & SYN:
            if opening.follows(packet):
                self._opening = None
                self.initiator_known = True
                self.flip = packet.end ^ bool(packet.flags & ACK)
                return self._replay([packet, *opening.packets])
            self._settle()
            return [packet]
        return self._settle() if opening.add(packet) else None

    def _settle(self) -> list[Packet] | None:
        """Choose offset 0 of both sides and take the packets kept back."""
        opening, self._opening = self._opening, None
        if opening is None:
            return None
        for side, half in enumerate(self.sides):
            half.base = opening.first_byte(side ^ self.flip)
        return self._replay(opening.packets)

    def _replay(self, packets: list[Packet]) -> list[Packet] | None:
        for i, packet in enumerate(packets):
            rest = self._take(packet)
            if rest is not None:
                return rest + packets[i + 1 :]
        return None

    def _take(self, packet: Packet) -> list[Packet] | None:
        side = packet.end ^ self.flip
        half, peer = self.sides[side], self.sides[1 - side]
        if packet.flags & SYN and not self._syn(packet, side):
            return [packet]
        off, ack = self._place(packet, half, peer)
        near = self._limits.near
        if not half.next - near <= off <= half.top + near or ack > peer.top + near:
            return self._far(packet)
        if self._strange:
            self._drop_strange()
        self._count(packet, half)
        if packet.flags & RST:
            self._rst(packet)
            return None
        if packet.length:
            self._payload(off, packet, half)
        elif off > half.top and half.fin is None:
            half.prove(off, packet, self.packets, acked=False)
        if packet.flags & FIN and half.fin is None:
            self._fin(off + packet.length, packet, half)
        if packet.flags & ACK:
            self._ack(ack, packet, 1 - side)
        for each in (half, peer):
            if each.top > each.next:
                each.expire(self.packets, packet.time_ns, packet.order)
        return None

    @staticmethod
    def _place(packet: Packet, half: Half, peer: Half) -> tuple[int, int]:
        """Offsets of a packet's sequence number and acknowledgement; 0 where there is none."""
        seq = packet.seq + 1 if packet.flags & SYN else packet.seq
        if not packet.flags & RST:
            if half.base is None:
                half.base = seq
            if packet.flags & ACK and peer.base is None:
                peer.base = packet.ack
        off = 0 if half.base is None else half.offset(seq)
        acks = packet.flags & ACK and peer.base is not None
        return off, peer.offset(packet.ack) if acks else 0

    def _count(self, packet: Packet, half: Half) -> None:
        self.packets += 1
        half.packets += 1
        half.payload_bytes += packet.length
        half.segments += packet.length > 0
        self.last_ns = packet.time_ns
        self.last_order = packet.order

    def _syn(self, packet: Packet, side: int) -> bool:
        """Take note of a SYN; False when it opens another connection."""
        half = self.sides[side]
        base = (packet.seq + 1) & _MASK
        if half.isn is None:
            if half.base is not None and half.base != base:
                return False
        elif half.isn != packet.seq:
            # A listener may answer a repeated SYN with another number; nothing was sent yet.
            if not packet.flags & ACK or half.top or half.segments:
                return False
        else:
            self._syn_ns[side] = None
            return True
        half.isn, half.base = packet.seq, base
        self.start_captured[side] = True
        self._syn_ns[side] = packet.time_ns
        return True

    def _handshake(self, packet: Packet, side: int) -> None:
        opened = self._syn_ns[side]
        assert opened is not None
        self._syn_ns[side] = None
        if packet.time_ns >= opened:
            self.handshake_ns[side] = packet.time_ns - opened

    def _rst(self, packet: Packet) -> None:
        """End the connection; what an RST carries is a message, no part of the stream."""
        self.reset = True
        self.stray_bytes += packet.length
        if self.closed_ns is None:
            self.closed_ns = packet.time_ns

    def _fin(self, end: int, packet: Packet, half: Half) -> None:
        if end < half.top:
            return
        if end > half.top:
            half.prove(end, packet, self.packets, acked=False)
        half.fin = end
        if self.sides[0].fin is not None is not self.sides[1].fin and self.closed_ns is None:
            self.closed_ns = packet.time_ns

    def _payload(self, off: int, packet: Packet, half: Half) -> None:
        end = off + packet.length
        fresh = 0
        if end > half.next:
            if half.fin is not None and end > half.fin:
                half.fin = None
            if off == half.next == half.top:
                half.sent(end, packet.time_ns)
            fresh = half.add(off, packet, self.packets)
        if fresh < packet.length:
            half.repeated += packet.length - fresh
            half.repeats += 1

    def _ack(self, ack: int, packet: Packet, side: int) -> None:
        """Take an acknowledgement of what `side` sent."""
        if self._syn_ns[side] is not None:
            self._handshake(packet, side)
        peer = self.sides[side]
        before = peer.acked
        if peer.fin is not None and ack > peer.fin:
            ack = peer.fin
        if ack <= before:
            return
        peer.acked = ack
        if ack > peer.next:
            peer.prove(ack, packet, self.packets, acked=True)
        ends = peer.sent_ends
        i = bisect_right(ends, ack)
        if i:
            if ends[i - 1] > before:
                peer.rtt.add(packet.time_ns - peer.sent_times[i - 1])
            del ends[:i], peer.sent_times[:i]

    def _far(self, packet: Packet) -> list[Packet] | None:
        """Weigh a packet that is far from where the streams stand."""
        near = self._limits.near
        if not agrees(packet, self._strange, near):
            self._drop_strange()
        self._strange.append(packet)
        if len(self._strange) < self._limits.votes:
            return None
        strange, self._strange = self._strange, []
        verdict = judge(strange, self.sides, self.flip, near)
        if verdict.another:
            return strange
        if verdict.place is None:
            self._stray(strange)
            return None
        self.sides[verdict.side].prove(verdict.place, strange[0], self.packets, acked=False)
        return self._replay(strange)

    def _drop_strange(self) -> None:
        strange, self._strange = self._strange, []
        self._stray(strange)

    def _stray(self, packets: list[Packet]) -> None:
        self.stray_packets += len(packets)
        self.stray_bytes += sum(p.length for p in packets)

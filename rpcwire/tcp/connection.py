"""A TCP connection: which packets belong to it, and what each of them says."""

from __future__ import annotations

from bisect import bisect_right

from rpcwire.capture.segments import ACK, FIN, RST, SYN
from rpcwire.tcp.half import Bytes, Half, Packet
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.sightings import Hold

Endpoint = tuple[str, int]
_MASK = 0xFFFFFFFF


class Connection:
    """One connection, from its first packet to its last, at whatever points it was captured.

    Side 0 is the initiator when the handshake told it (`initiator_known`), else the sender of the
    first packet.

    Attributes:
        id: from 0 in the order in which connections first had something to deliver; -1 before.
        initiator_known: whether a SYN said who opened it.
        start_captured: per side, whether its SYN was captured, so that offset 0 is its first byte.
        opened_ns, closed_ns: capture time of the first packet, and of the RST or second FIN
            (None while open).
        last_ns: capture time of the last packet.
        reset: whether an RST ended it.
        sides: per-direction state and counters; `sides[s].next` is the stream's length so far.
        handshake_ns: per side, time from its SYN to the acknowledgement of it.
        stray_packets, stray_bytes: packets of the same addresses and ports whose sequence numbers
            fit nowhere, and their payload and that of RST: not delivered.
        ignored: set by a consumer that does not want the data; it is counted, not delivered.
    """

    def __init__(
        self,
        limits: Limits,
        endpoints: tuple[Endpoint, Endpoint],
        first: Packet,
        hold: Hold | None = None,
    ) -> None:
        self.id = -1
        self.initiator_known = bool(first.flags & SYN)
        self.flip = first.end ^ (self.initiator_known and bool(first.flags & ACK))
        self.start_captured = [False, False]
        self.opened_ns = self.last_ns = first.time_ns
        self.last_order = first.order
        self.closed_ns: int | None = None
        self.reset = False
        self.sides = (Half(limits), Half(limits))
        self.handshake_ns: list[int | None] = [None, None]
        self.stray_packets = self.stray_bytes = 0
        self.ignored = False
        self.packets = 0
        self._ends = [(endpoints, 0)]
        self._syn_ns: list[int | None] = [None, None]
        self._limits = limits
        self._hold = hold or Hold()
        self._waiting: list[Packet] | None = None if self.initiator_known else []
        self._waiting_segments = 0
        self._strange: list[Packet] = []

    @property
    def points(self) -> list[tuple[Endpoint, Endpoint]]:
        """The addresses under which the connection was seen, side 0 first."""
        return [(ends[self.flip ^ swap], ends[1 - (self.flip ^ swap)]) for ends, swap in self._ends]

    @property
    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Address and port of side 0 and of side 1, where it was seen first."""
        return self.points[0]

    @property
    def copies(self) -> bool:
        """Whether packets were captured at several points, so that repeats are not resent.

        Told by addresses (`points`), or by three quarters of the segments being repeated.
        """
        repeats = sum(half.repeats for half in self.sides)
        segments = sum(half.segments for half in self.sides)
        return len(self._ends) > 1 or repeats > 0.75 * (segments - repeats)

    @property
    def retransmitted_bytes(self) -> int:
        """Payload bytes sent again, both directions."""
        return 0 if self.copies else sum(half.repeated for half in self.sides)

    @property
    def duplicated_bytes(self) -> int:
        """Payload bytes captured again at another point, both directions."""
        return sum(half.repeated for half in self.sides) if self.copies else 0

    @property
    def embryonic(self) -> bool:
        """Whether nothing but a handshake was taken so far."""
        return not any(half.segments for half in self.sides)

    @property
    def busy(self) -> bool:
        """Whether it carries payload and is not over."""
        return self.closed_ns is None and not self.embryonic

    @property
    def clean(self) -> bool:
        """Whether in-order packets need nothing but counting."""
        return (
            self._waiting is None
            and not self._strange
            and self.closed_ns is None
            and self.sides[0].clean
            and self.sides[1].clean
            and self._syn_ns[0] is self._syn_ns[1] is None
        )

    def packet(self, packet: Packet) -> list[Packet] | None:
        """Take a packet; packets that turn out to begin another connection are returned."""
        if self.lingered(packet.time_ns):
            return [packet]
        if self._waiting is None:
            return self._take(packet)
        return self._wait(packet)

    def lingered(self, time_ns: int) -> bool:
        """Whether it ended so long ago that a packet at `time_ns` cannot belong to it."""
        return self.closed_ns is not None and time_ns - self.last_ns > self._limits.linger_ns

    @property
    def held_bytes(self) -> int:
        """Payload bytes kept back, for want of a start or behind a hole."""
        waiting = sum(packet.captured for packet in self._waiting or ())
        return waiting + self.sides[0].held_bytes + self.sides[1].held_bytes

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
        waiting, self._waiting = self._waiting or [], None
        return waiting

    def own(self, data: Bytes) -> None:
        """Copy payload that is kept back out of the batch's buffer, which is about to go."""
        if self._waiting:
            self._waiting = [_owned(packet, data) for packet in self._waiting]
        if self._strange:
            self._strange = [_owned(packet, data) for packet in self._strange]
        for half in self.sides:
            half.own(data)

    def finish(self) -> None:
        """Nothing more will come: choose a start if that is open, declare the holes."""
        self._settle()
        self._drop_strange()
        ended = [half.fin is not None or self.reset for half in self.sides]
        for half, peer_ended in zip(self.sides, reversed(ended), strict=True):
            half.close(self.last_order, peer_ended=peer_ended)
        if self.closed_ns is None and self.sides[0].fin is not None is not self.sides[1].fin:
            self.closed_ns = self.last_ns

    def _wait(self, packet: Packet) -> list[Packet] | None:
        """Keep the first packets of a connection that began before the capture did."""
        assert self._waiting is not None
        if packet.flags & SYN:
            if self._preceded_by(packet):
                waiting, self._waiting = self._waiting, None
                self.initiator_known = True
                self.flip = packet.end ^ bool(packet.flags & ACK)
                return self._replay([packet, *waiting])
            self._settle()
            return [packet]
        self._waiting.append(packet)
        self._waiting_segments += packet.length > 0
        elapsed = packet.time_ns - self._waiting[0].time_ns
        until = self._hold.until
        if until is None or packet.order < until:
            return None
        if self._limits.started(len(self._waiting), self._waiting_segments, elapsed):
            return self._settle()
        return None

    def _preceded_by(self, syn: Packet) -> bool:
        """Whether the packets kept back follow this SYN, which a reordered capture has late."""
        assert self._waiting is not None
        near = self._limits.near
        return any(
            ((p.seq if p.end == syn.end else p.ack) - syn.seq - 1) & _MASK <= near
            for p in self._waiting
        )

    def _settle(self) -> list[Packet] | None:
        """Choose offset 0 of both sides and take the packets kept back."""
        if self._waiting is None:
            return None
        waiting, self._waiting = self._waiting, None
        for side, half in enumerate(self.sides):
            half.base = _first_byte([p for p in waiting if p.end ^ self.flip == side])
        return self._replay(waiting)

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
        for other in self._strange:
            same = other.end == packet.end
            seq, ack = (other.seq, other.ack) if same else (other.ack, other.seq)
            if _distance(seq, packet.seq) > near or _distance(ack, packet.ack) > near:
                self._drop_strange()
                break
        self._strange.append(packet)
        if len(self._strange) < self._limits.votes:
            return None
        strange, self._strange = self._strange, []
        places: list[int] = []
        for side, half in enumerate(self.sides):
            numbers = [p.seq if p.end ^ self.flip == side else p.ack for p in strange]
            off = 0 if half.base is None else min(half.offset(n) for n in numbers)
            places.append(off)
        far = [
            not half.next - near <= off <= half.top + near
            for half, off in zip(self.sides, places, strict=True)
        ]
        ahead = [off > half.top for half, off in zip(self.sides, places, strict=True)]
        if all(far):
            return strange
        side = far.index(True) if True in far else 0
        if not ahead[side]:
            self._stray(strange)
            return None
        self.sides[side].prove(places[side], strange[0], self.packets, acked=False)
        return self._replay(strange)

    def _drop_strange(self) -> None:
        strange, self._strange = self._strange, []
        self._stray(strange)

    def _stray(self, packets: list[Packet]) -> None:
        self.stray_packets += len(packets)
        self.stray_bytes += sum(p.length for p in packets)


def _owned(packet: Packet, data: Bytes) -> Packet:
    if packet.data is not None:
        return packet
    copy = data[packet.source : packet.source + packet.captured].copy()
    return packet._replace(source=0, data=copy)


def _distance(a: int, b: int) -> int:
    """How far two sequence numbers are apart, the shorter way round."""
    return min((a - b) & _MASK, (b - a) & _MASK)


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

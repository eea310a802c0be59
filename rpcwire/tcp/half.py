"""One direction of a connection: what arrived, what is held, what is known to be lost."""

from __future__ import annotations

import numpy as np

from rpcwire.tcp.held import Held
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.outlet import Outlet
from rpcwire.tcp.packet import Packet
from rpcwire.tcp.rtt import Rtt
from rpcwire.tcp.span import Span
from rpcwire.tcp.trail import Proof, Trail

# Segments that wait for their acknowledgement to give a round trip.
UNACKED = 8192
# How far the stream may be proved beyond `next` for offsets to be counted from there.
_FAR = 1 << 29


class Half:
    """Stream state of one direction.

    Attributes:
        base: sequence number of offset 0, None until known.
        isn: sequence number of the SYN, None when it was not captured.
        next: offset up to which the stream was handed on (pieces and declared holes).
        top: highest offset that is proved to exist.
        acked: highest offset the peer acknowledged.
        fin: offset of the FIN, None until seen.
        missing, truncated: bytes of the stream not captured, bytes cut by the snap length.
        repeated, repeats: payload bytes that were captured before, and segments with such bytes:
            sent again, or captured at several points (see `Connection.copies`).
        out_of_order: segments that arrived behind a hole.
        packets, segments: packets of this direction, and those of them with payload.
        payload_bytes: payload of all its packets, whether new or seen before.
        held: what arrived behind holes.
        out: what became deliverable.
        proofs: what first showed that the stream goes on beyond what was captured, in order.
        acks: acknowledgements beyond `next`, in order.
        sent_ends, sent_times: segments without an acknowledgement yet.
    """

    __slots__ = (
        "_limits", "acked", "acks", "base", "fin", "held", "isn", "missing", "next", "out",
        "out_of_order", "packets", "payload_bytes", "proofs", "repeated", "repeats", "rtt",
        "segments", "sent_ends", "sent_times", "top", "truncated",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.base: int | None = None
        self.isn: int | None = None
        self.fin: int | None = None
        self.next = self.top = self.acked = 0
        self.missing = self.truncated = self.repeated = self.repeats = 0
        self.out_of_order = self.packets = self.segments = 0
        self.payload_bytes = 0
        self.rtt = Rtt()
        self.sent_ends: list[int] = []
        self.sent_times: list[int] = []
        self.held = Held()
        self.out = Outlet()
        self.proofs = Trail()
        self.acks = Trail()

    @property
    def ready(self) -> bool:
        """Whether segments can be placed, and no FIN limits the stream."""
        return self.base is not None and self.fin is None and self.top - self.next < _FAR

    def sent(self, end: int, time_ns: int) -> None:
        """Remember a new segment, to pair it with its acknowledgement."""
        self.sent_ends.append(end)
        self.sent_times.append(time_ns)
        if len(self.sent_ends) > UNACKED:
            del self.sent_ends[0], self.sent_times[0]

    def offset(self, seq: int) -> int:
        """The 64-bit offset nearest to `next` of a sequence number."""
        assert self.base is not None
        return self.next + ((seq - self.base - self.next + 0x80000000) & 0xFFFFFFFF) - 0x80000000

    def add(self, off: int, packet: Packet, count: int) -> int:
        """Take a segment whose payload reaches beyond `next`; gives its bytes that are new."""
        end = off + packet.length
        held = self.held
        if off <= self.next and not held.starts:
            fresh = end - self.next
            self._emit(off, self.next, end, packet)
            self.top = max(self.top, end)
            return fresh
        if held.ends and off < held.ends[-1]:
            self.out_of_order += 1
        if off > self.top:
            self.proofs.append(Proof(end, count, packet.time_ns, packet.number, packet.file))
        self.top = max(self.top, end)
        fresh = 0
        for start, stop in held.cover(max(off, self.next), end):
            have = min(max(packet.captured - (start - off), 0), stop - start)
            held.add(start, (
                stop, packet.source + start - off, have, False, packet.time_ns, packet.number,
                packet.file, packet.order, packet.data,
            ))  # fmt: skip
            fresh += stop - start
        self.release(packet.order)
        return fresh

    def prove(self, offset: int, packet: Packet, count: int, *, acked: bool) -> None:
        """Note that the stream reaches `offset`, by an acknowledgement or a sequence number."""
        proof = Proof(offset, count, packet.time_ns, packet.number, packet.file)
        if offset > self.top:
            self.proofs.append(proof)
            self.top = offset
        if acked:
            self.acks.append(proof)

    def expire(self, count: int, time_ns: int, order: int) -> None:
        """Declare lost what has been waited for long enough."""
        limits = self._limits
        while self.top > self.next:
            acks, proofs = self.acks, self.proofs
            acks.forget(self.next)
            proofs.forget(self.next)
            hole = self.held.starts[0] if self.held.starts else self._sure()
            if hole == self.next:
                return
            acked = acks.first if len(acks) else None
            proof = proofs.first
            if acked is not None and (
                count - acked.packets >= limits.acked_packets
                or time_ns - acked.time_ns >= limits.acked_ns
            ):
                self._lose(min(hole, acked.offset), order)
            elif (
                self.held.bytes > limits.held_bytes
                or self.held.pieces > limits.held_pieces
                or len(proofs) > limits.held_pieces
                or count - proof.packets >= limits.sent_packets
                or time_ns - proof.time_ns >= limits.sent_ns
            ):
                self._lose(hole, order)
            else:
                return
        self.acks.clear()
        self.proofs.clear()

    def close(self, order: int, *, peer_ended: bool) -> None:
        """Declare every remaining hole; a last byte that may be a FIN is one if the peer ended."""
        self.give_up(order)
        if peer_ended and self.top > self.next and self.fin is None:
            sure = self._sure()
            if sure < self.top:
                self.fin = self.top = sure
        self._lose(self.top, order)
        self.acks.clear()
        self.proofs.clear()

    def give_up(self, order: int) -> None:
        """Declare the holes below all held payload, to free its memory."""
        while self.held.starts:
            self._lose(self.held.starts[0], order)

    def advance(self, span: Span) -> None:
        """Take a span that continues the stream."""
        assert span.known is not None
        self.out.add(span)
        self.out.at(int(span.known[-1]))
        self.next = span.end

    def release(self, known: int) -> None:
        """Hand on what is held at `next`."""
        held = self.held
        if not held.starts or held.starts[0] > self.next:
            return
        known = self.out.at(known)
        for item in held.release():
            if isinstance(item, Span):
                item.known = np.full(len(item.have), known)
                self.truncated += item.end - item.start - int(item.have.sum())
                self.next = item.end
                self.out.add(item)
            else:
                self.truncated += item[0] - self.next - item[2]
                self.next = item[0]
                self.out.add((*item[:7], known, item[8]))

    def _emit(self, off: int, start: int, end: int, packet: Packet) -> None:
        have = min(max(packet.captured - (start - off), 0), end - start)
        self.truncated += end - start - have
        self.next = end
        self.out.add((
            end, packet.source + start - off, have, False, packet.time_ns, packet.number,
            packet.file, self.out.at(packet.order), packet.data,
        ))  # fmt: skip

    def _lose(self, upto: int, known: int) -> None:
        """Declare [next, upto) lost, stamped with the packets that proved it."""
        proofs = self.proofs
        known = self.out.at(known)
        while self.next < upto:
            proofs.forget(self.next)
            proof = proofs.first
            end = min(upto, proof.offset)
            self.missing += end - self.next
            self.out.add((end, 0, 0, True, proof.time_ns, proof.number, proof.file, known, None))
            self.next = end
        self.release(known)

    def _sure(self) -> int:
        """Up to where a hole that nothing follows is payload beyond doubt.

        A FIN that was not captured is acknowledged like a byte: the last step, when it is one.
        """
        if self.fin is not None:
            return self.top
        return self.top - (self.top == max(self.proofs.before_last, self.next) + 1)

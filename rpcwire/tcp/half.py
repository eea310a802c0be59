"""One direction of a connection: what arrived, what is held, what is known to be lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rtt import Rtt
from rpcwire.tcp.span import Span

Bytes = NDArray[np.uint8]

# Segments that wait for their acknowledgement to give a round trip.
UNACKED = 8192


class Packet(NamedTuple):
    """One segment on the slow path; `end` is 0 for the flow's first endpoint as sender.

    `data` is None while the payload is still in the batch's own data.
    """

    end: int
    seq: int
    ack: int
    flags: int
    window: int
    source: int
    captured: int
    length: int
    time_ns: int
    number: int
    file: int
    order: int
    data: Bytes | None = None


class Proof(NamedTuple):
    """A packet that showed that the stream reaches `offset`."""

    offset: int
    packets: int
    time_ns: int
    number: int
    file: int


# A piece on its way out, or held: end, source, have, lost, time_ns, number, file, known, data.
Row = tuple[int, int, int, bool, int, int, int, int, Bytes | None]


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
    """

    __slots__ = (
        "_acks", "_borrowed", "_cover_ends", "_cover_starts", "_held", "_held_bytes", "_known",
        "_limits", "_proofs", "_rows", "_rows_start", "_spans", "acked", "base", "fin", "isn",
        "missing", "next", "out_of_order", "packets", "payload_bytes", "repeated", "repeats",
        "rtt", "segments", "sent_ends", "sent_times", "top", "truncated",
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
        self._cover_starts: list[int] = []
        self._cover_ends: list[int] = []
        self._held: list[tuple[int, Row]] = []
        self._held_bytes = 0
        self._borrowed = False
        # Lists, not deques: an empty deque takes 600 bytes, and a scan opens many connections.
        self._proofs: list[Proof] = []
        self._acks: list[Proof] = []
        self._rows: list[Row] = []
        self._rows_start = 0
        self._known = 0
        self._spans: list[Span] = []

    @property
    def clean(self) -> bool:
        """Whether the stream stands at its top: nothing held, no hole, no FIN."""
        return self.top == self.next and self.base is not None and self.fin is None

    @property
    def held_bytes(self) -> int:
        """Payload bytes held behind a hole."""
        return self._held_bytes

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
        if off <= self.next and not self._cover_starts:
            fresh = end - self.next
            self._emit(off, self.next, end, packet, packet.order)
            self.top = max(self.top, end)
            return fresh
        if self._cover_ends and off < self._cover_ends[-1]:
            self.out_of_order += 1
        if off > self.next and end > self.top:
            self._proofs.append(Proof(end, count, packet.time_ns, packet.number, packet.file))
        self.top = max(self.top, end)
        fresh = 0
        for start, stop in self._gaps(max(off, self.next), end):
            have = min(max(packet.captured - (start - off), 0), stop - start)
            row = (
                stop, packet.source + start - off, have, False, packet.time_ns, packet.number,
                packet.file, packet.order, packet.data,
            )  # fmt: skip
            heappush(self._held, (start, row))
            self._borrowed = True
            self._held_bytes += have
            fresh += stop - start
        self._release(packet.order)
        return fresh

    def prove(self, offset: int, packet: Packet, count: int, *, acked: bool) -> None:
        """Note that the stream reaches `offset`, by an acknowledgement or a sequence number."""
        proof = Proof(offset, count, packet.time_ns, packet.number, packet.file)
        if offset > self.top:
            self._proofs.append(proof)
            self.top = offset
        if acked:
            self._acks.append(proof)

    def expire(self, count: int, time_ns: int, order: int) -> None:
        """Declare lost what has been waited for long enough."""
        limits = self._limits
        while self.top > self.next:
            acks, proofs = self._acks, self._proofs
            while acks and acks[0].offset <= self.next:
                acks.pop(0)
            while proofs and proofs[0].offset <= self.next:
                proofs.pop(0)
            hole = self._cover_starts[0] if self._cover_starts else self._sure()
            if hole == self.next:
                return
            if acks and (
                count - acks[0].packets >= limits.acked_packets
                or time_ns - acks[0].time_ns >= limits.acked_ns
            ):
                self._lose(min(hole, acks[0].offset), order)
            elif (
                self._held_bytes > limits.held_bytes
                or len(self._held) > limits.held_pieces
                or len(proofs) > limits.held_pieces
                or count - proofs[0].packets >= limits.sent_packets
                or time_ns - proofs[0].time_ns >= limits.sent_ns
            ):
                self._lose(hole, order)
            else:
                return
        self._acks.clear()
        self._proofs.clear()

    def close(self, order: int, *, peer_ended: bool) -> None:
        """Declare every remaining hole; a last byte that may be a FIN is one if the peer ended."""
        self.give_up(order)
        if peer_ended and self.top > self.next and self.fin is None:
            sure = self._sure()
            if sure < self.top:
                self.fin = self.top = sure
        self._lose(self.top, order)
        self._acks.clear()
        self._proofs.clear()

    def give_up(self, order: int) -> None:
        """Declare the holes below all held payload, to free its memory."""
        while self._cover_starts:
            self._lose(self._cover_starts[0], order)

    def advance(self, span: Span) -> None:
        """Take a span that continues the stream and was made elsewhere."""
        self._pack(span.data)
        self._spans.append(span)
        self.next = self.top = self._rows_start = span.end

    def drop(self) -> None:
        """Forget what became deliverable: nobody wants it."""
        self._rows = []
        self._spans = []
        self._rows_start = self.next

    def flush(self, data: Bytes) -> list[Span]:
        """Hand out what became deliverable; `data` is the batch's payload buffer."""
        self._pack(data)
        spans, self._spans = self._spans, []
        return spans

    def own(self, data: Bytes) -> None:
        """Copy held payload out of the batch's buffer, which is about to go."""
        if not self._borrowed:
            return
        self._borrowed = False
        for i, (start, row) in enumerate(self._held):
            if row[8] is None:
                copy = data[row[1] : row[1] + row[2]].copy()
                self._held[i] = (start, (row[0], 0, *row[2:8], copy))

    def _emit(self, off: int, start: int, end: int, packet: Packet, known: int) -> None:
        have = min(max(packet.captured - (start - off), 0), end - start)
        self.truncated += end - start - have
        self.next = end
        known = self._known = max(self._known, known)
        self._rows.append((
            end, packet.source + start - off, have, False, packet.time_ns, packet.number,
            packet.file, known, packet.data,
        ))  # fmt: skip

    def _gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are not covered yet; they are covered from now on."""
        starts, ends = self._cover_starts, self._cover_ends
        i, j = bisect_left(ends, start), bisect_right(starts, end)
        gaps, pos = [], start
        for k in range(i, j):
            if starts[k] > pos:
                gaps.append((pos, starts[k]))
            pos = max(pos, ends[k])
        if pos < end:
            gaps.append((pos, end))
        if i < j:
            start, end = min(start, starts[i]), max(end, ends[j - 1])
        starts[i:j] = [start]
        ends[i:j] = [end]
        return gaps

    def _lose(self, upto: int, known: int) -> None:
        """Declare [next, upto) lost, stamped with the packets that proved it."""
        proofs = self._proofs
        known = self._known = max(self._known, known)
        while self.next < upto:
            while proofs[0].offset <= self.next:
                proofs.pop(0)
            proof = proofs[0]
            end = min(upto, proof.offset)
            self.missing += end - self.next
            self._rows.append(
                (end, 0, 0, True, proof.time_ns, proof.number, proof.file, known, None)
            )
            self.next = end
        self._release(known)

    def _sure(self) -> int:
        """Up to where a hole that nothing follows is payload beyond doubt.

        A FIN that was not captured is acknowledged like a byte: the last step, when it is one.
        """
        proofs = self._proofs
        if self.fin is not None:
            return self.top
        before = proofs[-2].offset if len(proofs) > 1 else self.next
        return self.top - (self.top == max(before, self.next) + 1)

    def _release(self, known: int) -> None:
        """Hand on what is held at `next`."""
        if not self._cover_starts or self._cover_starts[0] > self.next:
            return
        end = self._cover_ends[0]
        known = self._known = max(self._known, known)
        while self.next < end:
            _, row = heappop(self._held)
            self._held_bytes -= row[2]
            self.truncated += row[0] - self.next - row[2]
            self.next = row[0]
            self._rows.append((*row[:7], known, row[8]))
        del self._cover_starts[0], self._cover_ends[0]

    def _pack(self, data: Bytes) -> None:
        """Make spans of the rows, one for each stretch that shares a buffer."""
        rows = self._rows
        if not rows:
            return
        self._rows = []
        i = 0
        while i < len(rows):
            held = rows[i][8] is not None
            j = i + 1
            while j < len(rows) and (rows[j][3] or (rows[j][8] is not None) == held):
                j += 1
            self._spans.append(self._span(rows[i:j], data, held=held))
            i = j

    def _span(self, rows: list[Row], data: Bytes, *, held: bool) -> Span:
        ends, source, have, lost, time_ns, number, file, known, copies = zip(*rows, strict=True)
        start, self._rows_start = self._rows_start, ends[-1]
        sources = np.array(source, np.int64)
        if held:
            buffers = [c for c in copies if c is not None]
            data = np.concatenate(buffers)
            ahead = 0
            for k, copy in enumerate(copies):
                if copy is not None:
                    sources[k] += ahead
                    ahead += len(copy)
        return Span(
            start, ends[-1], np.array(ends, np.int64), sources, np.array(have, np.int64),
            np.array(lost, np.bool_), np.array(time_ns, np.int64), np.array(number, np.int64),
            np.array(file, np.int16), data,
            np.array(known, np.int64),
        )  # fmt: skip

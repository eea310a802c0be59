"""The packets of a slim capture, from columns to records in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from rpcwire.record.bulk import JOIN_NS, Joined, ack_ends, join
from rpcwire.record.outbox import Held, Outbox

if TYPE_CHECKING:
    from rpcwire.record.columns import Columns, Direction

Index = NDArray[np.int64]

_IP_BYTES = {ETHERTYPE_IPV4: 20, ETHERTYPE_IPV6: 40}


class Walk:
    """Takes packets in order; joins what is nothing but bulk, holds what is undecided.

    Args:
        out: where records go.
        numbered: the directions by number; grows elsewhere.

    Attributes:
        unplaced: packets of which it is not yet known what they brought, by packet number.
    """

    def __init__(self, out: Outbox, numbered: list[Direction]) -> None:
        self._out = out
        self._numbered = numbered
        self._growing: dict[Direction, None] = {}
        self.unplaced: dict[int, tuple[Held, Direction]] = {}

    def packets(self, now: Columns) -> None:
        """Take the packets in order: runs of bulk at once, the others one by one."""
        together = now.bulk | now.quiet
        stops = np.flatnonzero(~together).tolist()
        position = 0
        for stop in [*stops, len(together)]:
            if stop > position:
                self._run(now, position, stop)
            if stop < len(together):
                self._single(now, stop)
            position = stop + 1

    def _run(self, now: Columns, low: int, high: int) -> None:
        bulk = low + np.flatnonzero(now.bulk[low:high])
        acks = low + np.flatnonzero(now.quiet[low:high])
        if not len(bulk):
            self.close()
            for i in acks.tolist():
                self._plain(now, i)
            return
        kept = self._thin(now, bulk, acks)
        events: list[tuple[int, Joined | None, Direction]] = []
        for number in np.unique(now.direction[bulk]).tolist():
            direction = self._numbered[number]
            mine = bulk[now.direction[bulk] == number]
            seq, size = now.seq[mine], now.length[mine]
            answers = kept[now.direction[kept] == direction.peer.number]
            cuts = ack_ends(now.segments.ack[now.row[answers]].astype(np.int64), seq, size)
            records = join(mine, seq, size, now.packets.time_ns[mine], cuts)
            events += [(record.last, record, direction) for record in records]
        events += [(i, None, self._numbered[int(now.direction[i])]) for i in kept.tolist()]
        for i, record, direction in sorted(events, key=lambda e: e[0]):
            if record is None:
                self._close(direction.peer)
                self._plain(now, i)
            else:
                self._grow(now, direction, record)

    def _thin(self, now: Columns, bulk: Index, acks: Index) -> Index:
        """The acknowledgements that are kept among bulk: the last of each direction and slot."""
        senders = set(np.unique(now.direction[bulk]).tolist())
        kept: dict[tuple[int, int], int] = {}
        out = []
        times = now.packets.time_ns
        for i in acks.tolist():
            number = int(now.direction[i])
            if self._numbered[number].peer.number in senders:
                kept[number, int(times[i]) // JOIN_NS] = i
            else:
                out.append(i)
        return np.array(sorted(out + list(kept.values())), np.int64)

    def _grow(self, now: Columns, direction: Direction, record: Joined) -> None:
        i = record.last
        before = direction.joined
        if before is not None:
            old = before[0]
            if old.bucket == record.bucket and old.end == record.start:
                record = Joined(old.start, old.size + record.size, record.bucket, i)
            else:
                self._close(direction)
        direction.joined = (
            record,
            now.header(i),
            int(now.packets.time_ns[i]),
            int(now.packets.link[i]),
        )
        self._growing[direction] = None

    def _close(self, direction: Direction) -> None:
        """Write what was joined of a direction."""
        if direction.joined is None:
            return
        record, header, time_ns, link = direction.joined
        direction.joined = None
        self._growing.pop(direction, None)
        back = (record.start - header.seq) & 0xFFFFFFFF
        skip = back - (1 << 32) if back >> 31 else back
        front = header.segment(skip, record.size)
        self._out.ready(time_ns, link, front, len(front) + record.size, header.ip)

    def close(self) -> None:
        """Write what was joined of all directions."""
        for direction in sorted(
            self._growing, key=lambda d: d.joined[2] if d.joined is not None else 0
        ):
            self._close(direction)

    def _single(self, now: Columns, i: int) -> None:
        self.close()
        if now.row[i] < 0:
            self._foreign(now, i)
        elif now.length[i] == 0:
            self._plain(now, i)
        else:
            self._payload(now, i)

    def _payload(self, now: Columns, i: int) -> None:
        packets, segments, row = now.packets, now.segments, int(now.row[i])
        start = int(segments.payload[row])
        held = Held(
            int(packets.time_ns[i]),
            int(packets.link[i]),
            now.header(i),
            packets.data[start : start + int(segments.captured[row])].tobytes(),
            int(now.length[i]),
            int(packets.length[i]),
            now.pieces.get(i, []),
        )
        direction = self._numbered[int(now.direction[i])]
        connection = direction.connection
        covered = sum(p.end - p.start for p in held.pieces)
        if covered < held.length and (connection is None or connection.held_bytes):
            held.placed = False
            self.unplaced[now.first + i] = held, direction
        self._out.hold(held)

    def _plain(self, now: Columns, i: int) -> None:
        """A segment without payload."""
        packets = now.packets
        start, end = int(packets.offset[i]), int(now.segments.payload[now.row[i]])
        self._out.ready(
            int(packets.time_ns[i]),
            int(packets.link[i]),
            packets.data[start : min(end, start + int(packets.captured[i]))].tobytes(),
            int(packets.length[i]),
            int(now.ip[i]) - start,
        )

    def _foreign(self, now: Columns, i: int) -> None:
        """A packet that is not TCP: its link and network header."""
        packets = now.packets
        start = int(packets.offset[i])
        more = _IP_BYTES.get(int(now.kind[i]), 0)
        size = min(int(now.ip[i]) - start + more, int(packets.captured[i]))
        self._out.ready(
            int(packets.time_ns[i]),
            int(packets.link[i]),
            packets.data[start : start + size].tobytes(),
            int(packets.length[i]),
            int(now.ip[i]) - start if more else -1,
        )

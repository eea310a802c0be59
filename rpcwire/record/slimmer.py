"""The slimming writer: a capture in, the same capture without tensor contents out.

Every packet keeps its headers and its time; of the payload stays what the books and the meaning
of a run are read from (see policy). The rest is cut as a snap length would cut it. Runs of
packets with nothing but dropped bytes are joined (see bulk), and where a kept header follows
dropped bytes within a packet it becomes a segment of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.dissect import dissect
from rpcwire.capture.health import WARNING, CaptureHealth
from rpcwire.capture.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from rpcwire.capture.parser import PacketParser
from rpcwire.capture.segments import FIN, RST, SYN
from rpcwire.ggml.raw import HEAD_LIMIT
from rpcwire.ggml.stream import RpcConnection, State
from rpcwire.ggml.versions import REQUEST_HEADER, RESPONSE_HEADER
from rpcwire.record.anonymize import Anonymizer
from rpcwire.record.bulk import JOIN_NS, Joined, ack_ends, join
from rpcwire.record.columns import Columns, Direction, endpoints_of, peek, sequence_number
from rpcwire.record.outbox import Held, Outbox, Piece, Write
from rpcwire.record.policy import MOST_PLAIN
from rpcwire.record.stream import Stream
from rpcwire.session import Session
from rpcwire.tcp.flows import FlowKey, groups

if TYPE_CHECKING:
    from rpcwire.capture.packets import PacketBatch
    from rpcwire.ggml.frame import Frame
    from rpcwire.tcp.assembler import Delivery
    from rpcwire.tcp.connection import Connection
    from rpcwire.tcp.span import Span

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_HELD = 64 << 20
#: Capture time for which a packet waits to be put in its place among those before it.
_PATIENCE_NS = 12_000_000_000
_IP_BYTES = {ETHERTYPE_IPV4: 20, ETHERTYPE_IPV6: 40}


class Slimmer:
    """Takes packets, writes slim ones. Feed bytes of a capture (`feed`), then `finish`.

    Args:
        write: takes the records.
        name: what errors call the capture.
        anonymizer: replaces addresses, when given.
        most_held: payload bytes that wait for a decision at most.

    Attributes:
        session: what was decoded on the way. health: of the capture that came in.
    """

    def __init__(
        self,
        write: Write,
        *,
        name: str = "the capture",
        anonymizer: Anonymizer | None = None,
        most_held: int = MOST_HELD,
    ) -> None:
        self.health = CaptureHealth()
        self._deliveries: list[Delivery] = []
        self.session = Session(on_delivery=self._deliveries.append, on_cut=self._frame)
        self._parser = PacketParser(self.health, name)
        self._anonymizer = anonymizer
        # Names that lie further back in a message cannot be replaced.
        self._plain_bytes = REQUEST_HEADER + HEAD_LIMIT if anonymizer else MOST_PLAIN
        self._out = Outbox(write, most_held)
        self._directions: dict[tuple[FlowKey, int], Direction] = {}
        self._numbered: list[Direction] = []
        self._streams: dict[tuple[Connection, int], Stream] = {}
        self._growing: dict[Direction, None] = {}
        self._unplaced: dict[int, tuple[Held, Direction]] = {}

    @property
    def hurried(self) -> int:
        """Packets written before it was known what of them is kept; they lost their payload."""
        return self._out.hurried

    @property
    def remarks(self) -> list[str]:
        """What is to be said at the end of a slim file."""
        health = self.health
        lines = [
            f"slimmed from {health.packets:,} packets, {health.wire_bytes:,} bytes on the wire"
        ]
        if self.hurried:
            lines.append(f"{WARNING}{self.hurried:,} packets lost payload for want of memory")
        if health.truncated_packets and not health.slimmed:
            cut = f"{health.truncated_packets:,} packets were cut by the snap length"
            lines.append(f"{WARNING}{cut}: capture whole packets")
        return lines

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of a capture file.

        Raises:
            CaptureError: they are not those of a capture.
        """
        for batch in self._parser.feed(chunk):
            self.packets(batch)

    def finish(self) -> None:
        """Nothing more will come.

        Raises:
            CaptureError: nothing was a capture.
        """
        for batch in self._parser.finish():
            self.packets(batch)
        self._close_joined()
        self._deliveries.clear()
        self.session.finish()
        self._follow(None)
        for held, _ in self._unplaced.values():
            held.placed = True
        self._unplaced.clear()
        self._out.flush(everything=True)

    def packets(self, batch: PacketBatch) -> None:
        """Take packets that follow those before."""
        if not len(batch):
            return
        segments = dissect(batch, 0, self.health)
        self._deliveries.clear()
        self.session.feed(segments)
        now = Columns(batch, segments)
        self._address(now)
        spans = self._follow(now)
        for connection, side, span in spans:
            self._spread(now, connection, side, span)
        self._walk(now)
        self._place(int(batch.time_ns[-1]))
        for stream in self._streams.values():
            stream.settle()
        self._out.flush()
        if self._out.empty:
            for stream in self._streams.values():
                stream.forget()

    # -- what the decoder found ------------------------------------------------------------------

    def _follow(self, now: Columns | None) -> list[tuple[Connection, int, Span]]:
        """Take the states of connections; gives the spans."""
        spans = []
        touched: dict[Connection, None] = {}
        for delivery in self._deliveries:
            touched[delivery.connection] = None
            for side in (0, 1):
                spans += [(delivery.connection, side, s) for s in delivery.spans[side]]
        for connection in touched:
            rpc = self.session.connections[connection]
            for side in (0, 1):
                stream = self._stream(connection, side)
                if rpc.state is State.OTHER:
                    stream.drop_all()
                elif now is not None and rpc.state is State.RPC:
                    mine = [s for c, k, s in spans if c is connection and k == side]
                    self._open_frame(stream, rpc, side, mine)
                stream.settle()
        return spans

    def _frame(self, frame: Frame) -> None:
        rpc = frame.connection
        side = rpc.client_side if frame.direction == 0 else 1 - rpc.client_side
        patches = self._anonymizer.names(frame) if self._anonymizer else {}
        self._stream(cast("Connection", rpc.tcp), side).add(frame, patches)

    def _open_frame(self, stream: Stream, rpc: RpcConnection, side: int, spans: list[Span]) -> None:
        """Find the stretch of data of a frame that has begun and is not complete."""
        end = rpc.skip_until(side)
        if not spans or end <= spans[-1].end or stream.bulk[1] == end:
            return
        up = side == rpc.client_side
        size = REQUEST_HEADER if up else RESPONSE_HEADER
        start = rpc.frame_bytes[not up] + rpc.undecoded[not up]
        header = peek(spans, start, size)
        claims = int.from_bytes(header[-8:], "little") if len(header) == size else -1
        if start + size + claims == end:
            stream.bulk = (start + size + HEAD_LIMIT, end)
        else:
            stream.bulk = (spans[-1].end, end)

    def _stream(self, connection: Connection, side: int) -> Stream:
        stream = self._streams.get((connection, side))
        if stream is None:
            stream = self._streams[connection, side] = Stream(self._plain_bytes)
        return stream

    # -- which packet brought what ---------------------------------------------------------------

    def _address(self, now: Columns) -> None:
        """Number the directions of the segments."""
        segments = now.segments
        if not len(segments):
            return
        at = segments.number - now.first
        for key, where, end in groups(segments, np.arange(len(segments))):
            pair = [self._direction(key, k) for k in (0, 1)]
            pair[0].peer, pair[1].peer = pair[1], pair[0]
            numbers = np.array([pair[0].number, pair[1].number])
            now.direction[at[where]] = numbers[end]

    def _direction(self, key: FlowKey, end: int) -> Direction:
        found = self._directions.get((key, end))
        if found is None:
            found = self._directions[key, end] = Direction(len(self._numbered))
            self._numbered.append(found)
        return found

    def _spread(self, now: Columns, connection: Connection, side: int, span: Span) -> None:
        """Give the pieces of a span to their packets."""
        stream = self._stream(connection, side)
        ends = span.piece_end
        starts = np.concatenate(([span.start], ends[:-1]))
        real = ~span.lost
        local = span.number - now.first
        here = real & (local >= 0)
        i = local[here]
        if len(i):
            whole = (ends[here] - starts[here]) == now.length[i]
            plain = (now.flags[i] & (SYN | FIN | RST)) == 0
            bulk = stream.dropped(starts[here], ends[here]) & whole & plain
            now.bulk[i[bulk]] = True
            self._learn(now, i, connection, stream)
        else:
            bulk = np.zeros(0, np.bool_)
        rest = np.flatnonzero(here)[~bulk]
        payload = now.segments.payload
        for k in rest.tolist():
            j = int(local[k])
            # Held payload was copied out of the batch: its place is told by the sequence.
            at = int(span.source[k]) - int(payload[now.row[j]])
            if not 0 <= at < max(int(now.length[j]), 1) or span.data is not now.packets.data:
                at = self._place_in(now, j, connection, side, int(starts[k]))
            piece = Piece(stream, int(starts[k]), int(ends[k]), at, int(span.have[k]))
            now.pieces.setdefault(j, []).append(piece)
        for k in np.flatnonzero(real & (local < 0)).tolist():
            late = self._unplaced.get(int(span.number[k]))
            if late is None:
                continue
            held, direction = late
            direction.connection, direction.stream = connection, stream
            at = (sequence_number(connection, side, int(starts[k])) - held.header.seq) & 0xFFFFFFFF
            held.pieces.append(Piece(stream, int(starts[k]), int(ends[k]), at, int(span.have[k])))

    @staticmethod
    def _place_in(now: Columns, i: int, connection: Connection, side: int, start: int) -> int:
        return (sequence_number(connection, side, start) - int(now.seq[i])) & 0xFFFFFFFF

    def _learn(self, now: Columns, i: Index, connection: Connection, stream: Stream) -> None:
        for number in np.unique(now.direction[i]).tolist():
            direction = self._numbered[number]
            direction.connection, direction.stream = connection, stream
            direction.peer.connection = connection

    def _place(self, time_ns: int) -> None:
        """Give up waiting for packets that bring nothing new."""
        if not self._unplaced:
            return
        known: dict[int, Connection] | None = None
        for number, (held, direction) in list(self._unplaced.items()):
            connection = direction.connection
            if connection is None:
                if known is None:
                    known = self._points()
                connection = direction.connection = known.get(direction.number)
            over = time_ns - held.time_ns > _PATIENCE_NS
            if over or (connection is not None and not connection.held_bytes):
                held.placed = True
                del self._unplaced[number]

    def _points(self) -> dict[int, Connection]:
        """The connection of each direction, by all the addresses it was seen under."""
        found: dict[tuple[object, object], Connection] = {}
        for connection in self.session.connections:
            for a, b in connection.points:
                found[a, b] = found[b, a] = connection
        out = {}
        for (key, _), direction in self._directions.items():
            connection_ = found.get(endpoints_of(key))
            if connection_ is not None:
                out[direction.number] = connection_
        return out

    # -- packets out -----------------------------------------------------------------------------

    def _walk(self, now: Columns) -> None:
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
            self._close_joined()
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

    def _close_joined(self) -> None:
        for direction in sorted(
            self._growing, key=lambda d: d.joined[2] if d.joined is not None else 0
        ):
            self._close(direction)

    def _single(self, now: Columns, i: int) -> None:
        self._close_joined()
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
            self._unplaced[now.first + i] = held, direction
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

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
from rpcwire.capture.parser import PacketParser
from rpcwire.capture.segments import FIN, RST, SYN
from rpcwire.ggml.raw import HEAD_LIMIT
from rpcwire.ggml.stream import RpcConnection, State
from rpcwire.ggml.versions import REQUEST_HEADER, RESPONSE_HEADER
from rpcwire.record.anonymize import Anonymizer
from rpcwire.record.columns import Columns, Direction, endpoints_of, peek, sequence_number
from rpcwire.record.outbox import Outbox, Piece, Write
from rpcwire.record.policy import MOST_PLAIN
from rpcwire.record.stream import Stream
from rpcwire.record.walk import Walk
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
        self._walk = Walk(self._out, self._numbered)

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
        self._walk.close()
        self._deliveries.clear()
        self.session.finish()
        self._follow(None)
        for held, _ in self._walk.unplaced.values():
            held.placed = True
        self._walk.unplaced.clear()
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
        self._walk.packets(now)
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
            late = self._walk.unplaced.get(int(span.number[k]))
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
        if not self._walk.unplaced:
            return
        known: dict[int, Connection] | None = None
        for number, (held, direction) in list(self._walk.unplaced.items()):
            connection = direction.connection
            if connection is None:
                if known is None:
                    known = self._points()
                connection = direction.connection = known.get(direction.number)
            over = time_ns - held.time_ns > _PATIENCE_NS
            if over or (connection is not None and not connection.held_bytes):
                held.placed = True
                del self._walk.unplaced[number]

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

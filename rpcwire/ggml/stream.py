"""One TCP connection as ggml RPC: spans in, frames out.

`RpcConnection` decides whether the connection is ggml RPC at all and who is the client, has both
directions cut into frames, finds out the dialect, pairs responses with requests and hands on the
frames in the order in which they were completed. Bad input never raises: what cannot be decoded
is counted and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from rpcwire.ggml.dialect import DialectTracker, Expected
from rpcwire.ggml.fields import fill
from rpcwire.ggml.frame import DOWN, UP, Frame
from rpcwire.ggml.framing import FIRST_RESPONSES, RequestReader, ResponseReader
from rpcwire.ggml.pairing import Pairing
from rpcwire.ggml.raw import CONTENT_LIMIT, HEAD_LIMIT, SYNC_ID, Gap, Raw
from rpcwire.ggml.recognise import Recogniser
from rpcwire.ggml.repair import hidden_request, hidden_response
from rpcwire.ggml.versions import (
    HELLO_ID,
    RDMA_READY,
    RDMA_SYNC,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    Dialect,
    Shape,
)

if TYPE_CHECKING:
    from rpcwire.ggml.tape import Packet
    from rpcwire.tcp.span import Span

#: Stream bytes of the other direction kept while it is not known which side is the client, and
#: while requests are out of step.
MOST_HELD = 4 << 20
UNKNOWN = "UNKNOWN"
_MOST_NAMED = 6  #: gaps of each direction that notes name
HELLO_NAME = "HELLO"
_ANY: Expected = frozenset((-1,))

Endpoint = tuple[str, int]


class TcpConnection(Protocol):
    """What is needed to know of the TCP connection."""

    id: int
    initiator_known: bool

    @property
    def start_captured(self) -> Sequence[bool]:
        """Per side, whether its stream was captured from the first byte."""
        ...

    @property
    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Address and port of side 0 and of side 1."""
        ...


class State(Enum):
    """Whether a connection is ggml RPC."""

    UNDECIDED = "undecided"
    RPC = "rpc"
    OTHER = "other"


class RpcConnection:
    """One TCP connection. Call `feed`, `settle` after each batch, and `finish` at the end.

    Attributes:
        tcp: the TCP connection.
        state: whether it is ggml RPC.
        client_side: side (0 or 1) of the client, -1 while unknown.
        gaps: (direction, gap) of all that stayed undecoded.
        requests: requests seen. frame_bytes: [UP, DOWN] stream bytes in frames handed on.
    """

    def __init__(self, tcp: TcpConnection) -> None:
        self.tcp = tcp
        self.id = tcp.id  #: number of the TCP connection
        self.state = State.UNDECIDED
        self.client_side = 0 if tcp.initiator_known else -1
        self.tracker = DialectTracker()
        self.gaps: list[tuple[int, Gap]] = []
        self.gap_count = [0, 0]
        self.undecoded = [0, 0]
        self.frame_bytes = [0, 0]
        self.requests = 0
        self._up = [RequestReader(self), RequestReader(self)]
        self._down = [ResponseReader(self), ResponseReader(self)]
        self._pairing = Pairing(self.tracker, loose=False)
        self._ready: list[Raw] = []
        self._barrier = 0
        self._caps = [False, False]
        self._sync: list[int | None] = [None, None]
        self._total = [0, 0]
        self._probing = [not captured for captured in tcp.start_captured]
        self._recogniser = Recogniser(self._up, self._down, self._probing, self.client_side)
        self._finished = False
        self._computing = False  # a graph was sent
        self._joining = False  # whether responses are in step is not known before the first
        self._hello_alone = False  # only the worker's side was captured, from its start
        for reader, probing in zip(self._up, self._probing, strict=True):
            if probing:
                reader.lose()

    # -- what others ask -------------------------------------------------------------------

    @property
    def recognised(self) -> bool:
        """True when the connection is ggml RPC."""
        return self.state is State.RPC

    @property
    def client(self) -> Endpoint:
        """Address and port of the client (side 0 while it is not known which side that is)."""
        return self.tcp.endpoints[max(0, self.client_side)]

    @property
    def server(self) -> Endpoint:
        """Address and port of the worker."""
        return self.tcp.endpoints[1 - max(0, self.client_side)]

    @property
    def start_captured(self) -> bool:
        """Whether the client's stream was captured from its first byte."""
        return self.tcp.start_captured[max(0, self.client_side)]

    @property
    def layout(self) -> Dialect:
        """The dialect that is read: it knows where the fields are."""
        return self.tracker.best

    @property
    def protocol(self) -> str:
        """The version as HELLO gave it, "none", or a range ("4.0.0-5.1.0") when only inferred."""
        return self.tracker.protocol

    @property
    def protocol_source(self) -> str:
        """Where `protocol` is from: "hello" or "inferred"."""
        return self.tracker.source

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The dialects that it may speak, for `hint` of another connection of the same worker."""
        return self.tracker.candidates

    @property
    def undecoded_bytes(self) -> int:
        """Stream bytes in no frame, of both directions."""
        return sum(self.undecoded)

    def hint(self, dialects: tuple[Dialect, ...]) -> None:
        """Another connection of the same worker showed which dialects it may speak.

        Used where the capture does not show the beginning of this one; ignored otherwise.
        """
        if all(self._probing):
            self.tracker.hint(dialects)

    def skip_until(self, side: int) -> int:
        """Stream offset of a side before which the bytes themselves are of no interest."""
        if self.state is State.OTHER:
            return 1 << 62
        if self.state is State.UNDECIDED:
            return 0
        up = side == self.client_side
        return (self._up if up else self._down)[side].wanted_from

    @property
    def notes(self) -> list[str]:
        """What a reader of the results has to know, one line each."""
        lines = self.tracker.notes
        for direction, name in ((UP, "requests"), (DOWN, "responses")):
            if not self.undecoded[direction]:
                continue
            where = ", ".join(
                f"{g.end - g.start:,} at offset {g.start:,} (packet {g.number})"
                for d, g in self.gaps
                if d == direction
            )
            more = self.gap_count[direction] - sum(d == direction for d, _ in self.gaps)
            lines.append(
                f"{self.undecoded[direction]:,} bytes of {name} could not be decoded: {where}"
                + (f" and {more} more places" if more > 0 else "")
            )
        if all(self._caps):
            if self._sync[UP] == RDMA_READY == self._sync[DOWN] or self.requests <= 1:
                lines.append("went on over RDMA after HELLO: the TCP connection is silent")
            else:
                lines.append("both sides offered RDMA, but went on over TCP")
        if self._pairing.orphans:
            lines.append(f"{self._pairing.orphans} responses to requests that were not captured")
        return lines

    # -- input and output ------------------------------------------------------------------

    def feed(self, side: int, span: Span) -> None:
        """Take in the next span of a side (0: the initiator, where that is known)."""
        if self.state is State.OTHER:
            return
        self._total[side] += span.end - span.start
        if self.client_side < 0:
            self._up[side].add(span)
            self._down[side].add(span)
        elif side == self.client_side:
            self._up[side].add(span)
        else:
            self._down[side].add(span)

    def settle(self, last_number: int) -> list[Frame]:
        """All packets up to `last_number` were fed: the frames that became complete.

        In the order of the packets that completed them, whatever the batches were.
        """
        del last_number  # what was fed is what is settled
        if self.state is State.UNDECIDED:
            self._decide()
        if self.state is State.RPC:
            self._up[self.client_side].run()
            self._run_down()
            self._merge()
        for reader in (*self._up, *self._down):
            reader.tape.own()
        if self.state is not State.RPC:
            return []
        # Responses that are left wait for requests that are not at hand.
        self._register(None)
        return self._release()

    def finish(self) -> list[Frame]:
        """Nothing more will come: the frames that were not complete, too."""
        self._finished = True
        if self.state is State.UNDECIDED:
            self._decide()
        if self.state is not State.RPC:
            if any(self._total):
                self._reject()
            return []
        self._up[self.client_side].finish()
        self._run_down()
        self._down[1 - self.client_side].finish()
        self._merge()
        # Responses that are left wait for requests that are not at hand.
        self._register(None)
        for response, request in self._pairing.settle():
            self._join(response, request, response.key)
        return self._release()

    # -- is it ggml RPC? -------------------------------------------------------------------

    def _decide(self) -> None:
        """Find out whether it is, with what is at hand."""
        side = self._recogniser.decide(self._finished)
        if side is None:
            self._reject()
        elif side >= 0:
            self._accept(side)
        else:
            for reader in self._down:
                reader.shorten(MOST_HELD)

    def _reject(self) -> None:
        self.state = State.OTHER
        self._up, self._down = [], []

    def _accept(self, side: int) -> None:
        """`side` is a ggml RPC client."""
        self.state = State.RPC
        self.client_side = side
        up, down = self._up[side], self._down[1 - side]
        header, _ = up.tape.read(0, 1)
        self._joining = self._probing[1 - side] and not self._probing[side] and bool(header)
        if self._probing[side] or not header or (self._probing[1 - side] and not self._joining):
            self._pairing.loose = True
        late = self._probing[1 - side] and not self._joining
        if late or (self._probing[side] and up.tape.captured):
            down.lose()
        if not self._probing[side] and header:
            self.tracker.begin(hello=header[0] == HELLO_ID)
            up.dialects = self.tracker.candidates
        self._hello_alone = not up.tape.captured
        for other in (self._up[1 - side], self._down[side]):
            other.tape.spans.clear()

    def _run_down(self) -> None:
        """Cut the responses that are at hand."""
        down = self._down[1 - self.client_side]
        if self._joining and down.tape.started:
            # The worker's SYN was not captured. If its first bytes were not either, what the
            # client acknowledged says where they are; else they must look like an answer.
            self._joining = False
            header, _ = down.tape.read(0, RESPONSE_HEADER)
            size = int.from_bytes(header, "little")
            if header and (len(header) < RESPONSE_HEADER or size not in FIRST_RESPONSES):
                self._pairing.loose = True
                down.lose()
        down.run()

    # -- both directions in order ----------------------------------------------------------

    def blocked(self, key: int) -> bool:
        """Whether responses at `key` must wait until requests are in step again."""
        up = self._up[self.client_side]
        down = self._down[1 - self.client_side]
        return (
            up.searching
            and key >= up.lost_key
            and not self._finished
            and down.tape.end - down.position < MOST_HELD
        )

    def expected_response(self, key: int, proved: int) -> int | None:
        """Payload bytes of the response that comes next at `key`, where that is certain.

        Args:
            key: of the packet with its first byte.
            proved: bytes from there to the next place up to which something proved the stream.
        """
        self._merge()
        self._register(key)
        captured = self._down[1 - self.client_side].tape.captured
        return self._pairing.next_size(key, None if captured else proved)

    def credible_response(self, packet: Packet, size: int) -> bool:
        """Whether a response of `size` payload bytes can begin with a packet."""
        self._merge()
        self._register(packet.key)
        return self._pairing.last_takes(packet.key, packet.time_ns, size)

    def _merge(self) -> None:
        """Take the frames of both directions in the order of their packets."""
        out = self._down[1 - self.client_side].out
        while out:
            event = out[0]
            first = event.lost if isinstance(event, Gap) else event.first
            if self.blocked(first):
                break
            out.popleft()
            self._register(first)
            if isinstance(event, Raw):
                self._respond(event)
            else:
                self._mend_response(event)

    def _register(self, key: int | None) -> None:
        """Take in the requests that were complete at `key` (None: all)."""
        out = self._up[self.client_side].out
        while out:
            event = out[0]
            last = event.lost if isinstance(event, Gap) else event.last
            if key is not None and last > key:
                break
            out.popleft()
            if isinstance(event, Raw):
                self._request(event)
            else:
                self._mend_request(event)

    def _mend_request(self, gap: Gap) -> None:
        """Take a gap as the request that it must be, or as a gap."""
        hidden, candidates = gap.hidden, self.tracker.candidates
        if hidden is not None:
            raw = hidden_request(hidden, candidates, computing=self._computing)
            if raw is not None:
                self._request(raw)
                return
        self._gap(UP, gap)
        self._barrier = max(self._barrier, gap.key)

    def _mend_response(self, gap: Gap) -> None:
        """Take a gap as the response that it must be, or as a gap."""
        raw = None if gap.hidden is None else hidden_response(gap.hidden)
        if raw is not None:
            size = raw.frame.size - RESPONSE_HEADER
            if self._pairing.takes(raw.frame.time_ns, size):
                self._respond(raw)
                return
        self._gap(DOWN, gap)

    def _gap(self, direction: int, gap: Gap) -> None:
        self.undecoded[direction] += gap.end - gap.start
        self.gap_count[direction] += 1
        if self.gap_count[direction] <= _MOST_NAMED:
            self.gaps.append((direction, gap))
        self._pairing.loose = True

    def _request(self, raw: Raw) -> None:
        """Understand a request."""
        frame, command, payload = raw.frame, raw.command, raw.payload
        self.requests += 1
        frame.head = payload[:HEAD_LIMIT]
        self._ready.append(raw)
        if command == SYNC_ID:
            frame.command = RDMA_SYNC
            self.requests -= 1
            self._sync[UP] = payload[0] if payload else None
            return
        size = frame.size - REQUEST_HEADER
        tracker = self.tracker
        shape: Shape | None
        only = tracker.only
        if (
            only is not None
            and (shape := only.get(command)) is not None
            and (size == shape.fixed or (shape.fixed < 0 and size >= shape.least))
        ):
            dialect = tracker.best
        else:
            shape, dialect = tracker.shape(command, size, payload)
        if shape is None:
            frame.command = f"{UNKNOWN}_{command}"
            return
        frame.command = shape.name
        fill(frame, shape, dialect, payload, size)
        if command == HELLO_ID:
            self._caps[UP] = any(payload)
        self._computing |= shape.is_graph
        pairing = self._pairing
        if tracker.only is None or shape.name in tracker.answered:
            sizes, sure = tracker.expected(command, shape, payload)
        elif shape.answered:
            sizes, sure = _sizes(shape, payload), True
        elif not pairing.waiting:
            pairing.unanswerable(raw)
            return
        else:
            sizes, sure = frozenset(), False
        for response, request in pairing.request(raw, sizes, sure):
            self._join(response, request, raw.key)

    def _respond(self, raw: Raw) -> None:
        """Understand a response."""
        if raw.command == SYNC_ID:
            raw.frame.command = RDMA_SYNC
            self._sync[DOWN] = raw.payload[0] if raw.payload else None
            self._ready.append(raw)
            return
        raw.key = max(raw.key, self._barrier)
        found = self._pairing.response(raw)
        if found is not None:
            self._join(*found, raw.key)

    def _join(self, raw: Raw, request: Raw | None, key: int) -> None:
        """A response's request is known, or (None) that it has none, since `key`."""
        if request is None:
            self._orphan(raw, key)
        else:
            self._pair(raw, request)
            raw.key = max(raw.key, key)

    def _pair(self, raw: Raw, request: Raw) -> None:
        frame, asked = raw.frame, request.frame
        frame.request = asked
        asked.response = frame
        frame.command = asked.command
        frame.device = asked.device
        self._finish_response(raw, request.key if request.key > raw.key else raw.key)
        if request.command == HELLO_ID:
            self.tracker.hello(raw.payload)
            self._caps[DOWN] = any(raw.payload[4:])

    def _orphan(self, raw: Raw, key: int) -> None:
        raw.frame.command = UNKNOWN
        if raw.frame.offset == 0 and self.requests == 0 and self._hello_alone:
            raw.frame.command = HELLO_NAME
            self.tracker.hello(raw.payload)
        self._finish_response(raw, max(key, raw.key))

    def _finish_response(self, raw: Raw, key: int) -> None:
        frame, payload = raw.frame, raw.payload
        frame.head = payload[:HEAD_LIMIT]
        if len(payload) == frame.size - RESPONSE_HEADER and len(payload) <= CONTENT_LIMIT:
            frame.content = payload
        raw.key = key
        self._ready.append(raw)

    def _release(self) -> list[Frame]:
        ready = self._ready
        if not ready:
            return []
        self._ready = []
        ready.sort(key=_IN_ORDER)
        frame_bytes = self.frame_bytes
        frames = []
        for raw in ready:
            frame = raw.frame
            frame.known = raw.key
            frame_bytes[frame.direction] += frame.bytes
            frames.append(frame)
        return frames


def _sizes(shape: Shape, payload: bytes) -> Expected:
    """Payload bytes that the response to an answered request has; {-1}: any."""
    if shape.response >= 0:
        return shape.sizes
    at = shape.size_at
    if len(payload) < at + 8:
        return _ANY
    return frozenset((int.from_bytes(payload[at : at + 8], "little"),))


#: What frames are sorted by: when it was known, when it was complete, its place.
_IN_ORDER = attrgetter("key", "last", "frame.direction", "frame.offset")

"""Spans for tests: from bytes, and from the small captures by way of a minimal pcap reader."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from rpcwire.ggml.frame import Frame
from rpcwire.ggml.stream import RpcConnection
from rpcwire.ggml.tensor import PACKED_296, TYPE_BY_ID, TYPE_ID, TensorLayout
from rpcwire.ggml.versions import DIALECTS, Dialect
from rpcwire.tcp.span import Span

CAPTURES = Path(__file__).parents[2] / "captures"


@dataclass
class Piece:
    """One segment's part of a stream: `length` bytes, of which `data` were captured."""

    data: bytes
    length: int
    number: int
    time_ns: int = 0
    lost: bool = False


@dataclass
class Tcp:
    initiator_known: bool = True
    start_captured: tuple[bool, bool] = (True, True)
    id: int = 0


@dataclass
class Conversation:
    """The pieces of both sides of one connection; side 0 is the client."""

    sides: tuple[list[Piece], list[Piece]] = field(default_factory=lambda: ([], []))

    def length(self, side: int) -> int:
        return sum(p.length for p in self.sides[side])


def span(pieces: list[Piece], start: int) -> Span:
    lengths = np.array([p.length for p in pieces], np.int64)
    have = np.array([len(p.data) for p in pieces], np.int64)
    data = np.frombuffer(b"".join(p.data for p in pieces), np.uint8)
    return Span(
        start=start,
        end=start + int(lengths.sum()),
        piece_end=start + np.cumsum(lengths),
        source=np.concatenate(([0], np.cumsum(have)[:-1])).astype(np.int64),
        have=have,
        lost=np.array([p.lost for p in pieces], np.bool_),
        time_ns=np.array([p.time_ns for p in pieces], np.int64),
        number=np.array([p.number for p in pieces], np.int64),
        file=np.zeros(len(pieces), np.int16),
        data=data,
    )


def decode(
    conversation: Conversation,
    tcp: Tcp | None = None,
    batches: list[int] | None = None,
    start: int = 0,
) -> tuple[RpcConnection, list[Frame]]:
    """Feed a conversation in batches that end at the given packet numbers; all frames."""
    connection = RpcConnection(tcp or Tcp())
    frames: list[Frame] = []
    last = max((p.number for side in conversation.sides for p in side), default=0)
    at = [0, 0]
    offset = [start, start]
    for stop in sorted({*(batches or []), last}):
        for side in (0, 1):
            pieces = conversation.sides[side]
            end = at[side]
            while end < len(pieces) and pieces[end].number <= stop:
                end += 1
            if end > at[side]:
                new = pieces[at[side] : end]
                connection.feed(side, span(new, offset[side]))
                offset[side] += sum(p.length for p in new)
                at[side] = end
        frames += connection.settle(stop)
    frames += connection.finish()
    return connection, frames


def _packets(path: Path):
    raw = gzip.decompress(path.read_bytes())
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    tick = 1 if raw[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    link = struct.unpack_from(order + "I", raw, 20)[0] & 0xFFFF
    skip = {1: 14, 101: 0, 0: 4, 113: 16, 276: 20}[link]
    at, number = 24, 0
    while at + 16 <= len(raw):
        seconds, fraction, captured, _ = struct.unpack_from(order + "IIII", raw, at)
        number += 1
        yield number, seconds * 10**9 + fraction * tick, raw[at + 16 + skip : at + 16 + captured]
        at += 16 + captured


@cache
def capture(name: str) -> list[Conversation]:
    """The connections of a small capture, streams put in order, in order of their SYNs."""
    found: dict[tuple, tuple[Conversation, list]] = {}
    done: list[Conversation] = []
    for number, time_ns, ip in _packets(CAPTURES / f"{name}.pcap.gz"):
        head = (ip[0] & 15) * 4
        total = struct.unpack_from(">H", ip, 2)[0]
        sport, dport, seq, _, hl, flags = struct.unpack_from(">HHIIBB", ip, head)
        begin = head + (hl >> 4) * 4
        payload, length = ip[begin:total], total - begin
        a, b = (ip[12:16], sport), (ip[16:20], dport)
        if flags & 2 and not flags & 16:
            conversation = Conversation()
            done.append(conversation)
            found[a, b] = found[b, a] = (conversation, [a, {a: seq + 1}, {}])
        if (a, b) not in found:
            continue
        conversation, (client, bases, held) = found[a, b]
        if flags & 2:
            bases[a] = seq + 1
            continue
        if not length:
            continue
        side = int(a != client)
        offset = (seq - bases[a] + (1 << 31)) % (1 << 32) - (1 << 31)
        queue = held.setdefault(side, {})
        queue.setdefault(offset, Piece(payload, length, number, time_ns))
        pieces = conversation.sides[side]
        at = held.get(("at", side), 0)
        while at in queue:
            piece = queue.pop(at)
            piece.number = max(piece.number, pieces[-1].number if pieces else 0)
            pieces.append(piece)
            at += piece.length
        held["at", side] = at
    return done


def tensor(  # noqa: PLR0917
    layout: TensorLayout = PACKED_296,
    ident: int = 0x7F0000001000,
    kind: str = "F32",
    ne: tuple[int, ...] = (64, 2, 1, 1),
    buffer: int = 0x5600000000,
    op: int = 0,
    src: tuple[int, ...] = (),
    name: bytes = b"t",
) -> bytes:
    """A contiguous tensor's record."""
    t = TYPE_BY_ID[TYPE_ID[kind]]
    row = np.zeros((), layout.dtype)
    nb = [t.size, ne[0] // t.block * t.size]
    nb += [nb[1] * ne[1], nb[1] * ne[1] * ne[2]]
    for field_name, value in {
        "id": ident,
        "type": t.id,
        "buffer": buffer,
        "ne": ne,
        "nb": nb,
        "op": op,
        "src": tuple(src) + (0,) * (layout.sources - len(src)),
        "data": 0x7E0000000000,
        "name": name,
    }.items():
        row[field_name] = value
    return row.tobytes()


_NUMBERS = {"u8": "<B", "u32": "<I", "u64": "<Q"}


def payload(fields, values: dict, layout: TensorLayout) -> bytes:
    """A payload laid out as the table says; numbers default to 0, tensors to `tensor()`."""
    parts = []
    for f in fields:
        value = values.get(f.name)
        if isinstance(value, bytes):
            parts.append(value)
        elif f.format == "tensor":
            count = f.count if isinstance(f.count, int) else values.get("count", 0)
            parts.append(tensor(layout) * count)
        else:
            many = value if isinstance(value, (list, tuple)) else [value or 0]
            if isinstance(f.count, int) and len(many) < f.count:
                many = list(many) * f.count
            parts += [struct.pack(_NUMBERS[f.format], v) for v in many]
    return b"".join(parts)


class Talk(Conversation):
    """A conversation written in a dialect, as client and worker send it: three sends a request."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.dialect: Dialect = DIALECTS[key]
        self.ids = {c.name: i for i, c in self.dialect.commands.items()}
        self.number = 0
        self.expected: list[tuple[int, str, int]] = []

    def send(self, side: int, *parts: bytes) -> None:
        for part in parts:
            if part:
                self.number += 1
                piece = Piece(part, len(part), self.number, self.number * 1000)
                self.sides[side].append(piece)

    def ask(self, name: str, answer: bytes | None = None, **values) -> None:
        """One request and, if the dialect answers it, its response."""
        command = self.dialect.commands[self.ids[name]]
        body = payload(command.request, values, self.dialect.layout)
        self.raw(self.ids[name], body, name)
        if command.response is None:
            return
        if answer is None:
            answer = payload(command.response, values, self.dialect.layout)
            if name == "GET_TENSOR":
                answer = bytes(values["size"])
        self.answer(answer, name)

    def raw(self, command: int, body: bytes, name: str) -> None:
        self.send(0, bytes([command]), struct.pack("<Q", len(body)), body)
        self.expected.append((0, name, 9 + len(body)))

    def answer(self, body: bytes, name: str) -> None:
        self.send(1, struct.pack("<Q", len(body)), body)
        self.expected.append((1, name, 8 + len(body)))

    def hello(self, caps: int = 0) -> None:
        version = self.dialect.row.version
        assert version is not None
        major, minor, patch = version
        self.ask("HELLO", major=major, minor=minor, patch=patch, conn_caps=[caps] * 24)

    def step(self, n: int = 0) -> None:
        """Inputs, a graph, an output."""
        layout = self.dialect.layout
        ids = [0x1000 + 0x170 * i for i in range(4)]
        records = b"".join(tensor(layout, i, op=1) for i in ids)
        self.ask("SET_TENSOR", tensor=tensor(layout, ids[0]), data=bytes(range(256)) * 2)
        self.ask("SET_TENSOR", tensor=tensor(layout, ids[1], "I32", (4, 1, 1, 1)), data=bytes(16))
        if n and "GRAPH_RECOMPUTE" in self.ids:
            self.ask("GRAPH_RECOMPUTE")
        else:
            self.ask("GRAPH_COMPUTE", n_nodes=2, nodes=ids[2:], n_tensors=4, tensors=records)
        self.ask("GET_TENSOR", tensor=tensor(layout, ids[3]), size=512)

    def run(self, steps: int = 3) -> None:
        """A whole small run."""
        if "HELLO" in self.ids:
            self.hello()
        for name in ("DEVICE_COUNT", "GET_DEVICE_MEMORY", "GET_ALIGNMENT", "GET_MAX_SIZE"):
            if name in self.ids:
                self.ask(name, alignment=128, max_size=1 << 40, device_count=1)
        self.ask("ALLOC_BUFFER", size=1 << 20, remote_ptr=0x5600000000, remote_size=1 << 20)
        self.ask("BUFFER_GET_BASE", remote_ptr=0x5600000000, base_ptr=0x7E0000000000)
        for name in ("GET_ALLOC_SIZE", "INIT_TENSOR"):
            if name in self.ids:
                self.ask(name)
        weight = tensor(self.dialect.layout, 0x9000, "F16", (512, 70, 1, 1))
        if "SET_TENSOR_HASH" in self.ids:
            self.ask("SET_TENSOR_HASH", tensor=weight, hash=77)
        self.ask("SET_TENSOR", tensor=weight, data=b"\x11\x3c" * (512 * 70))
        self.ask("BUFFER_CLEAR", remote_ptr=0x5600000000)
        if "MEMSET_TENSOR" in self.ids:
            self.ask("MEMSET_TENSOR", size=512)
        self.ask("COPY_TENSOR", answer=b"\1")
        for n in range(steps):
            self.step(n)
        self.ask("FREE_BUFFER", remote_ptr=0x5600000000)


def seen(frames: list[Frame]) -> list[tuple[int, str, int]]:
    """(direction, command, size) of frames."""
    return [(f.direction, f.command, f.size) for f in frames]


def facts(frames: list[Frame]) -> list[tuple]:
    """All that must not depend on how a stream was cut into pieces."""
    return [
        (
            f.direction,
            f.command,
            f.offset,
            f.size,
            f.bytes,
            f.missing,
            f.truncated,
            f.head,
            f.data_offset,
            f.data_size,
            f.content,
            f.device,
            f.graph and f.graph.digest,
            f.request and f.request.offset,
            f.response and f.response.offset,
        )
        for f in frames
    ]


def balanced(connection: RpcConnection, conversation: Conversation) -> None:
    """The books of both directions balance."""
    client = connection.client_side
    for direction in (0, 1):
        side = client if direction == 0 else 1 - client
        books = connection.frame_bytes[direction] + connection.undecoded[direction]
        assert books == conversation.length(side)

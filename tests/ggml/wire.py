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
    start_captured: bool = True


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

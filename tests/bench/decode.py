"""Writes a long run: the generation of a recorded one, prolonged.

``python tests/bench/decode.py RECORDED OUT [PACKETS]`` copies a bundled capture and repeats the
passes of its (first) generation until there are so many packets. Sequence numbers, times,
positions and KV indices go on; every 256 tokens the pass that sends a full graph comes again, as
it does when the mask grows. Where every round sends full graphs, as with a draft head, all of it
is repeated as it is. OUT is pcap or, where it ends in .pcapng, pcapng.
"""

from __future__ import annotations

import gzip
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.parser import PacketParser
from rpcwire.capture.reader import read_segments
from rpcwire.capture.segments import SegmentBatch
from rpcwire.capture.writer import PcapngWriter, PcapWriter
from rpcwire.ggml.frame import Frame
from rpcwire.runs.passes import Pass
from rpcwire.session import Session

PACKETS = 300_000
TOKENS_A_GRAPH = 256
TARGET = ("decode", "verify")
NUMBERS = {"positions": "<i4", "kv_indices": "<i8"}
WORD = 0xFFFFFFFF


@dataclass
class Part:
    """A stretch of the recording that can be repeated.

    Attributes:
        first, stop: packets, from 0.
        bytes: stream bytes [up, down] in it. ns: its duration. tokens: positions it advances.
    """

    first: int
    stop: int
    bytes: tuple[int, int]
    ns: int
    tokens: int


@dataclass
class Shift:
    """By how much the next copy is later than the recording."""

    bytes: list[int] = field(default_factory=lambda: [0, 0])
    ns: int = 0
    tokens: int = 0

    def add(self, part: Part, times: int = 1) -> None:
        """A copy of a part was put in (times=-1: the recording's own is passed over)."""
        self.bytes = [a + times * b for a, b in zip(self.bytes, part.bytes, strict=True)]
        self.ns += times * part.ns
        self.tokens += times * part.tokens


class Recording:
    """A recorded run with one connection in its generation."""

    def __init__(self, path: str) -> None:
        self.raw = gzip.decompress(Path(path).read_bytes())
        self.passes: list[Pass] = []
        self.frames: list[Frame] = []
        session = Session(on_pass=self.passes.append, on_frame=self.frames.append)
        reader = read_segments([path])
        batches = list(reader)
        for batch in batches:
            session.feed(batch)
        session.finish()
        self.packets = self._packets(reader.health.packets)
        self.link = self._link
        self.steady = [p for p in self.passes if p.group.phase in TARGET]
        step = self.steady[0].steps[0]
        self.connection = step.graph.connection
        self.places = self._numbers(batches)
        self.segments = self._segments(batches)

    def _packets(self, count: int) -> list[tuple[int, bytes]]:
        """(time, bytes) of every packet."""
        parser = PacketParser(CaptureHealth(), "recording")
        found: list[tuple[int, bytes]] = []
        for batch in (*parser.feed(self.raw), *parser.finish()):
            self._link = int(batch.link[0])
            view = batch.data.data
            columns = (batch.time_ns, batch.offset, batch.captured)
            for time_ns, at, size in zip(*(c.tolist() for c in columns), strict=True):
                found.append((time_ns, bytes(view[at : at + size])))
        assert len(found) == count
        return found

    def _segments(self, batches: list[SegmentBatch]) -> dict[int, tuple[int, int]]:
        """Packet number of each of the connection's segments -> (side, TCP header's place)."""
        client = self.connection.client
        found = {}
        for batch in batches:
            for i in np.flatnonzero((batch.sport == client[1]) | (batch.dport == client[1])):
                number = int(batch.number[i])
                raw = self.packets[number - 1][1]
                ports = struct.pack(">HH", int(batch.sport[i]), int(batch.dport[i]))
                found[number] = (int(batch.sport[i] != client[1]), raw.index(ports))
        return found

    def _numbers(self, batches: list[SegmentBatch]) -> dict[int, list[tuple[int, str]]]:
        """Packet number -> (place, format) of the positions and KV indices that begin in it."""
        half = self.connection.tcp.sides[self.connection.client_side]
        client = self.connection.client[1]
        where: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for i in np.flatnonzero((batch.sport == client) & (batch.captured > 0)):
                offset = (int(batch.seq[i]) - half.base) & WORD
                raw = self.packets[int(batch.number[i]) - 1][1]
                front = len(raw) - int(batch.captured[i])
                for k in range(int(batch.captured[i])) if batch.captured[i] < 4096 else ():
                    where.setdefault(offset + k, (int(batch.number[i]), front + k))
        found: dict[int, list[tuple[int, str]]] = {}
        for frame in self.frames:
            form = NUMBERS.get(frame.role)
            if form is None or frame.content is None or frame.connection is not self.connection:
                continue
            first = frame.offset + frame.size - len(frame.content)
            for at in range(first, frame.offset + frame.size, int(form[-1])):
                number, place = where[at]
                found.setdefault(number, []).append((place, form))
        return found

    def part(self, first: int, stop: int) -> Part:
        """From the first packet of one steady pass to that of another."""
        a, b = self._start(first), self._start(stop)
        down = [self._answer(p) for p in (first, stop)]
        tokens = self.position(stop) - self.position(first)
        return Part(
            a.number - 1, b.number - 1, (b.offset - a.offset, down[1].offset - down[0].offset),
            b.time_ns - a.time_ns, tokens,
        )  # fmt: skip

    def position(self, index: int) -> int:
        """Of the first row of a steady pass."""
        positions = self.steady[index].positions
        assert positions is not None
        return int(positions[0])

    def _start(self, index: int) -> Frame:
        return self.steady[index].steps[0].inputs[0]

    def _answer(self, index: int) -> Frame:
        return next(
            f for f in self.frames
            if f.direction and f.connection is self.connection
            and f.time_ns >= self._start(index).time_ns
        )  # fmt: skip

    def copy(self, number: int, shift: Shift) -> tuple[int, bytes]:
        """Packet `number` (from 0), shifted."""
        time_ns, raw = self.packets[number]
        place = self.segments.get(number + 1)
        if place is not None:
            side, at = place
            data = bytearray(raw)
            for where, moved in ((at + 4, shift.bytes[side]), (at + 8, shift.bytes[1 - side])):
                (value,) = struct.unpack_from(">I", data, where)
                struct.pack_into(">I", data, where, (value + moved) & WORD)
            for where, form in self.places.get(number + 1, ()):
                (value,) = np.frombuffer(data, form, 1, where)
                data[where : where + int(form[-1])] = (value + shift.tokens).astype(form).tobytes()
            raw = bytes(data)
        return time_ns + shift.ns, raw


def write(recorded: str, path: str, count: int = PACKETS) -> None:
    """Write the prolonged run with some `count` packets."""
    run = Recording(recorded)
    first = run.steady[0]
    last = 0
    while last + 1 < len(run.steady) and run.position(last + 1) > run.position(last):
        last += 1
    drafted = first.group.phase == "verify"
    graph, steady = run.part(0, 1), run.part(0 if drafted else 1, last)
    with open(path, "wb") as out:
        if path.endswith(".pcapng"):
            ng = PcapngWriter(out)
            ng.interface(run.link, name="lo")
            put = ng.packet
        else:
            put = PcapWriter(out, run.link).packet
        shift = Shift()

        def emit(start: int, stop: int) -> int:
            for number in range(start, stop):
                put(*run.copy(number, shift))
            return stop - start

        written = emit(0, steady.stop)
        since = 0
        while written < count:
            part = steady
            if not drafted and since >= TOKENS_A_GRAPH:
                part, since = graph, 0
            # The copy begins where the stream stands: at the end of the steady part.
            before = Shift(list(shift.bytes), shift.ns, shift.tokens)
            if part is graph:
                shift.add(graph)
            shift.add(steady)
            since += part.tokens
            written += emit(part.first, part.stop)
            if part is graph:
                shift = before
                shift.add(graph)
        emit(steady.stop, len(run.packets))


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))

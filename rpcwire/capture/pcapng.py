"""The pcapng container: sections of typed blocks (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture import blocks
from rpcwire.capture.blocks import BlockLayout, Clock
from rpcwire.capture.buffer import Arena
from rpcwire.capture.container import ContainerReader
from rpcwire.capture.health import MAX_REMARKS, CaptureHealth, InterfaceHealth
from rpcwire.capture.packets import Index, PacketBatch, rows
from rpcwire.capture.resync import Headers

MAX_INTERFACES = 4096
UNDESCRIBED = -1


@dataclass(slots=True)
class _Interface:
    link: int
    snaplen: int
    clock: Clock
    health: InterfaceHealth


_NOWHERE = _Interface(UNDESCRIBED, 0, Clock(), InterfaceHealth(0, "", UNDESCRIBED))


@dataclass(slots=True)
class _Run:
    """Packets of consecutive blocks of one type: the arrays of a PacketBatch."""

    time_ns: Index
    offset: Index
    captured: Index
    length: Index
    link: NDArray[np.int32]


class PcapngReader(ContainerReader):
    """Cuts packets from the bytes of a pcapng file, as they come.

    Args:
        arena: where the bytes arrive; its first byte is that of the file.
        health: counts and notes are added here.
        name: what notes call the file.
        file: index of the file among the inputs.
    """

    layout: BlockLayout

    def __init__(self, arena: Arena, health: CaptureHealth, name: str, file: int) -> None:
        super().__init__(arena, health, name)
        self._file = file
        self._described = 0
        self._last_ns = 0
        self._section("<")

    def read(self, final: bool = False) -> Iterator[PacketBatch]:
        """Hand on the packets that are complete.

        Args:
            final: whether no more bytes will come.
        """
        number, runs = self.number, []
        while True:
            if self._damage.lost and not self._search(final):
                break
            run = self._packets()
            if run is not None:
                runs.append(run)
                self.number += len(run.offset)
            if not self._damage.lost and not self._other():
                break
        if runs:
            yield _batch(self._arena, number, runs)

    def _section(self, order: str) -> None:
        self._order = order
        self.layout = BlockLayout(order)
        self._unpack = struct.Struct(order + "II").unpack_from
        self._interfaces: list[_Interface] = []

    def _packets(self) -> _Run | None:
        """Read the packet blocks of one type that come next, up to the first broken one."""
        arena, unpack = self._arena, self._unpack
        view = arena.data.data[: arena.end]
        smallest = 0
        starts: list[int] = []
        append = starts.append
        at = arena.start
        try:
            run_kind = unpack(view, at)[0]
            smallest = blocks.PACKET_BLOCKS.get(run_kind, 0)
            if not smallest:
                return None
            while True:
                kind, size = unpack(view, at)
                if kind != run_kind or size < smallest:
                    break
                append(at)
                at += size
        except struct.error:  # the next block is not here yet
            pass
        if starts and at > arena.end:
            at = starts.pop()
        arena.start = at
        if not starts:
            return None
        found = np.array(starts, np.int64)
        head = rows(arena.data, found, blocks.packet_layout(run_kind, self._order))
        broken = blocks.broken_packets(head, smallest)
        broken |= ~self.layout.closed(arena.data, found, np.diff(found, append=at))
        if broken.any():
            first = int(broken.argmax())
            self._break(starts[first])
            found, head = found[:first], head[:first]
        return self._run(run_kind, found, head) if len(found) else None

    def _run(self, kind: int, at: Index, head: Headers) -> _Run:
        offset = at + head.dtype.itemsize
        length = head["length"].astype(np.int64)
        if kind == blocks.SIMPLE_PACKET:
            owner = self._interfaces[0] if self._interfaces else _NOWHERE
            captured = np.minimum(length, head["size"].astype(np.int64) - 16)
            if owner.snaplen:
                captured = np.minimum(captured, owner.snaplen)
            self._health.note(
                f"{self._name} has packets without a time (simple packet blocks): "
                "they are given the time of the packet before"
            )
            time_ns = np.full(len(at), self._last_ns, np.int64)
            link = np.full(len(at), owner.link, np.int32)
            return _Run(time_ns, offset, captured, length, link)
        captured = head["captured"].astype(np.int64)
        time_ns, link = self._times(head)
        self._last_ns = int(time_ns[-1])
        self._comments(at, offset + captured + (-captured & 3), head)
        return _Run(time_ns, offset, captured, np.maximum(length, captured), link)

    def _times(self, head: Headers) -> tuple[Index, NDArray[np.int32]]:
        """Times and link types, which depend on the packet's interface."""
        number = head["interface"]
        if (number == number[0]).all():
            owner = self._interface(int(number[0]))
            return owner.clock.to_ns(head["high"], head["low"]), np.full(
                len(head), owner.link, np.int32
            )
        time_ns = np.zeros(len(head), np.int64)
        link = np.full(len(head), UNDESCRIBED, np.int32)
        undescribed = number >= len(self._interfaces)
        for value in np.unique(np.where(undescribed, len(self._interfaces), number)):
            mine = undescribed if value == len(self._interfaces) else number == value
            owner = self._interface(int(value))
            time_ns[mine] = owner.clock.to_ns(head["high"][mine], head["low"][mine])
            link[mine] = owner.link
        return time_ns, link

    def _interface(self, number: int) -> _Interface:
        if number < len(self._interfaces):
            return self._interfaces[number]
        self._health.note(f"{self._name} has packets of an interface that it does not describe")
        return _NOWHERE

    def _comments(self, at: Index, first: Index, head: Headers) -> None:
        room = MAX_REMARKS - len(self._health.comments)
        end = at + head["size"] - 4
        if room <= 0 or not (first < end).any():
            return
        data = self._arena.data
        for index, value in blocks.comments_in(data, first, end, self._order, room):
            self._health.comment(f"packet {self.number + index:,}: {_text(value)}")

    def _other(self) -> bool:
        """Read the block that comes next, if it is complete; False: wait for more bytes."""
        arena = self._arena
        at, have = arena.start, arena.end - arena.start
        if have < blocks.EMPTY_BLOCK:
            return False
        front = arena.data[at : at + blocks.EMPTY_BLOCK].tobytes()
        order: str | None = self._order
        if front[:4] == blocks.SECTION_MAGIC:
            order = blocks.BYTE_ORDERS.get(front[8:])
        if order is None:
            return self._break(at)
        kind, size = struct.unpack_from(order + "II", front)
        smallest = blocks.PACKET_BLOCKS.get(kind, blocks.EMPTY_BLOCK)
        if size < smallest or size > blocks.MAX_BLOCK or size % 4:
            return self._break(at)
        if size > have or kind in blocks.PACKET_BLOCKS:
            return bool(size <= have)
        raw = arena.data[at : at + size].tobytes()
        if raw[-4:] != raw[4:8]:
            return self._break(at)
        if kind == blocks.SECTION_HEADER:
            self._section(order)
        self._read_block(kind, raw[8:-4])
        arena.start = at + size
        return True

    def _read_block(self, kind: int, body: bytes) -> None:
        read = {
            blocks.SECTION_HEADER: self._read_section,
            blocks.INTERFACE: self._read_interface,
            blocks.STATISTICS: self._read_statistics,
        }.get(kind)
        if read is not None:
            read(body)
        elif kind not in blocks.PASSED_OVER:
            self._health.skipped_blocks += 1

    def _read_section(self, body: bytes) -> None:
        self.opened = True
        makers = (blocks.SHB_HARDWARE, blocks.SHB_OS, blocks.SHB_APPLICATION)
        for code, value in blocks.options(body[16:], self._order):
            if code == blocks.OPT_COMMENT:
                self._health.comment(_text(value))
            elif code in makers:
                self._health.maker(_text(value))

    def _read_interface(self, body: bytes) -> None:
        if len(body) < 8 or self._described >= MAX_INTERFACES:
            self._health.note(f"{self._name} has interface descriptions that were not read")
            return
        link, _, snaplen = struct.unpack_from(self._order + "HHI", body)
        name, resolution, offset_s = "", 6, 0
        for code, value in blocks.options(body[8:], self._order):
            if code == blocks.OPT_COMMENT:
                self._health.comment(_text(value))
            elif code == blocks.IF_NAME:
                name = _text(value)
            elif code == blocks.IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == blocks.IF_TSOFFSET and len(value) == 8:
                (offset_s,) = struct.unpack(self._order + "q", value)
        health = InterfaceHealth(self._file, name, link)
        self._interfaces.append(_Interface(link, snaplen, Clock(resolution, offset_s), health))
        self._health.interfaces.append(health)
        self._described += 1

    def _read_statistics(self, body: bytes) -> None:
        if len(body) < 12:
            return
        (number,) = struct.unpack_from(self._order + "I", body)
        if number >= len(self._interfaces):
            return
        health = self._interfaces[number].health
        names = {
            blocks.ISB_IFRECV: "received",
            blocks.ISB_IFDROP: "dropped",
            blocks.ISB_OSDROP: "os_dropped",
        }
        for code, value in blocks.options(body[12:], self._order):
            if code == blocks.OPT_COMMENT:
                self._health.comment(_text(value))
            elif code in names and len(value) == 8:
                setattr(health, names[code], struct.unpack(self._order + "Q", value)[0])


def _batch(arena: Arena, number: int, runs: list[_Run]) -> PacketBatch:
    columns = [
        getattr(runs[0], field.name)
        if len(runs) == 1
        else np.concatenate([getattr(run, field.name) for run in runs])
        for field in fields(_Run)
    ]
    return PacketBatch(arena.data, number, *columns)


def _text(value: bytes) -> str:
    """Text of an option: one line, without terminators or control characters."""
    text = value.decode("utf-8", "replace").rstrip("\0")
    return "".join(c if c.isprintable() else " " for c in text).strip()[:1000]

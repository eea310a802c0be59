"""The pcap container: one header, then records of 16 bytes and a packet."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rpcwire.capture.buffer import Arena
from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.packets import PacketBatch, rows

FILE_HEADER = 24
# No packet is longer (BIG TCP ends at 512 KiB): a record that claims more is damage.
MAX_PACKET = 1 << 20


@dataclass(frozen=True, slots=True)
class PcapVariant:
    """One of the dialects that the first four bytes tell apart.

    Attributes:
        order: struct's sign of the byte order.
        unit_ns: ns in one unit of the fraction field.
        header: bytes before each packet; more than 16 in the "modified" dialect.
    """

    order: str
    unit_ns: int
    header: int

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Layout of the fields at the front of each record header."""
        return np.dtype([(f, self.order + "u4") for f in ("sec", "frac", "captured", "length")])


_MAGICS = ((0xA1B2C3D4, 1000, 16), (0xA1B23C4D, 1, 16), (0xA1B2CD34, 1000, 24))
VARIANTS = {
    struct.pack(order + "I", magic): PcapVariant(order, unit, header)
    for magic, unit, header in _MAGICS
    for order in "<>"
}


class PcapReader:
    """Cuts packets from the bytes of a pcap file, as they come.

    Args:
        arena: where the bytes arrive; its first byte is that of the file header.
        health: counts and notes are added here.
        name: what notes call the file.
    """

    def __init__(self, arena: Arena, health: CaptureHealth, name: str) -> None:
        self._arena = arena
        self._health = health
        self._name = name
        self._variant: PcapVariant | None = None
        self._link = -1
        self.number = 1

    def read(self) -> Iterator[PacketBatch]:
        """Hand on the packets that are complete."""
        arena = self._arena
        if self._variant is None:
            if arena.end - arena.start < FILE_HEADER:
                return
            self._open()
        assert self._variant is not None
        starts = self._chain(self._variant)
        if not len(starts):
            return
        head = rows(arena.data, starts, self._variant.dtype)
        captured = head["captured"].astype(np.int64)
        batch = PacketBatch(
            data=arena.data,
            number=self.number,
            time_ns=head["sec"].astype(np.int64) * 1_000_000_000
            + head["frac"].astype(np.int64) * self._variant.unit_ns,
            offset=starts + self._variant.header,
            captured=captured,
            length=np.maximum(head["length"].astype(np.int64), captured),
            link=np.full(len(starts), self._link, np.int32),
        )
        self.number += len(starts)
        yield batch

    def finish(self) -> Iterator[PacketBatch]:
        """Name what is left over at the end of the file."""
        left = self._arena.end - self._arena.start
        if left:
            self._health.note(f"{self._name} ends inside packet {self.number}")
        yield from ()

    def _open(self) -> None:
        arena = self._arena
        raw = arena.data[arena.start : arena.start + FILE_HEADER].tobytes()
        self._variant = VARIANTS[raw[:4]]
        # The upper bits of the field tell the length of a frame check sequence.
        self._link = struct.unpack(self._variant.order + "I", raw[20:])[0] & 0xFFFF
        arena.start += FILE_HEADER

    def _chain(self, variant: PcapVariant) -> np.ndarray:
        arena = self._arena
        unpack = struct.Struct(variant.order + "I").unpack_from
        view = arena.data.data[: arena.end]
        header = variant.header
        starts: list[int] = []
        append = starts.append
        at = arena.start
        try:
            while True:
                following = at + header + unpack(view, at + 8)[0]
                append(at)
                at = following
        except struct.error:
            pass
        if starts and at > arena.end:
            at = starts.pop()
        arena.start = at
        return np.array(starts, np.int64)

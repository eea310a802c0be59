"""The pcap container: one header, then records of 16 bytes and a packet."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rpcwire.capture.container import ContainerReader
from rpcwire.capture.packets import Bytes, Index, PacketBatch, rows
from rpcwire.capture.resync import Headers, Mask

FILE_HEADER = 24
RECORD_FRONT = 16
# No packet is longer (BIG TCP ends at 512 KiB): a record that claims more is damage.
MAX_PACKET = 1 << 20
# What tcpdump and Wireshark call unlimited; a file that asks for less holds no longer packet.
USUAL_SNAPLEN = 262_144
MAX_WIRE = 1 << 26
SECOND_NS = 1_000_000_000
DAY = 86_400


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


_MAGICS = ((0xA1B2C3D4, 1000, 16), (0xA1B23C4D, 1, 16), (0xA1B2CD34, 1000, 24))
VARIANTS = {
    struct.pack(order + "I", magic): PcapVariant(order, unit, header)
    for magic, unit, header in _MAGICS
    for order in "<>"
}


class PcapLayout:
    """What a credible record looks like, see `resync.Layout`.

    Args:
        variant: the dialect.
        snaplen: as the file header gives it.
    """

    def __init__(self, variant: PcapVariant, snaplen: int) -> None:
        fields = ("sec", "frac", "captured", "length")
        self.dtype: np.dtype[np.void] = np.dtype([(f, variant.order + "u4") for f in fields])
        self.limit = USUAL_SNAPLEN if 0 < snaplen <= USUAL_SNAPLEN else MAX_PACKET
        self._header = variant.header
        self._fractions = SECOND_NS // variant.unit_ns

    def broken(self, head: Headers) -> Mask:
        """Whether each header is impossible; milder than `credible`, as real files are sloppy."""
        captured, length = head["captured"], head["length"]
        # Zeros, as a crash or a sparse copy leaves them, would chain for ever.
        nothing = (captured == 0) & (length == 0)
        bad: Mask = (captured > self.limit) | (length > MAX_WIRE) | nothing
        bad |= head["frac"] >= SECOND_NS
        return bad

    def credible(self, head: Headers) -> Mask:
        """Whether each header by itself can be real."""
        captured, length = head["captured"], head["length"]
        sound: Mask = (captured <= self.limit) & (captured > 0) & (length >= captured)
        sound &= (length <= MAX_WIRE) & (head["frac"] < self._fractions)
        return sound

    def size(self, head: Headers) -> Index:
        """Bytes from each header to the next."""
        return head["captured"].astype(np.int64) + self._header

    def agree(self, data: Bytes, at: Index, head: Headers, following: Headers) -> Mask:
        """Whether each next header is credible and its time near."""
        apart = np.abs(head["sec"].astype(np.int64) - following["sec"].astype(np.int64))
        return self.credible(following) & (apart <= DAY)


class PcapReader(ContainerReader):
    """Cuts packets from the bytes of a pcap file, as they come."""

    layout: PcapLayout

    def read(self, final: bool = False) -> Iterator[PacketBatch]:
        """Hand on the packets that are complete.

        Args:
            final: whether no more bytes will come.
        """
        arena = self._arena
        if not self.opened:
            if arena.end - arena.start < FILE_HEADER:
                return
            self._open()
        while True:
            if self._damage.lost and not self._search(final):
                return
            starts = self._chain()
            if len(starts):
                yield self._batch(starts)
            if not self._damage.lost:
                return

    def _open(self) -> None:
        arena = self._arena
        raw = arena.data[arena.start : arena.start + FILE_HEADER].tobytes()
        variant = VARIANTS[raw[:4]]
        snaplen, link = struct.unpack(variant.order + "II", raw[16:])
        # The upper bits of the field tell the length of a frame check sequence.
        self._link = link & 0xFFFF
        self.layout = PcapLayout(variant, snaplen)
        self._unpack = struct.Struct(variant.order + "I").unpack_from
        self._header, self._unit_ns = variant.header, variant.unit_ns
        arena.start += FILE_HEADER
        self.opened = True

    def _chain(self) -> Index:
        """Indices of the records that are complete, up to the first broken one."""
        arena, unpack, header = self._arena, self._unpack, self._header
        view = arena.data.data[: arena.end]
        starts: list[int] = []
        append = starts.append
        at = arena.start
        try:
            while True:
                following = at + header + unpack(view, at + 8)[0]
                append(at)
                at = following
        except struct.error:  # the next header is not here yet
            pass
        found = np.array(starts, np.int64)
        fits = found + RECORD_FRONT <= arena.end
        broken = self.layout.broken(rows(arena.data, found, self.layout.dtype)) & fits
        if broken.any():
            first = int(broken.argmax())
            self._break(starts[first])
            return found[:first]
        if starts and at > arena.end:
            at = starts[-1]
            found = found[:-1]
        arena.start = at
        return found

    def _batch(self, starts: Index) -> PacketBatch:
        head = rows(self._arena.data, starts, self.layout.dtype)
        captured = head["captured"].astype(np.int64)
        seconds, fraction = head["sec"].astype(np.int64), head["frac"].astype(np.int64)
        number, self.number = self.number, self.number + len(starts)
        return PacketBatch(
            data=self._arena.data,
            number=number,
            time_ns=seconds * SECOND_NS + fraction * self._unit_ns,
            offset=starts + self._header,
            captured=captured,
            length=np.maximum(head["length"], captured),
            link=np.full(len(starts), self._link, np.int32),
        )

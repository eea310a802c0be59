"""Blocks and options of pcapng, as numbers and layouts (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rpcwire.capture.packets import Bytes, Index, rows
from rpcwire.capture.pcap import MAX_PACKET, MAX_WIRE
from rpcwire.capture.resync import Headers, Mask

SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION_HEADER, INTERFACE, OLD_PACKET, SIMPLE_PACKET = 0x0A0D0D0A, 1, 2, 3
NAME_RESOLUTION, STATISTICS, ENHANCED_PACKET, SECRETS = 4, 5, 6, 10
# Known, and of no use here: names and keys, custom blocks that may and may not be copied.
PASSED_OVER = (NAME_RESOLUTION, SECRETS, 0x0BAD, 0x40000BAD)
BYTE_ORDERS = {struct.pack(sign + "I", 0x1A2B3C4D): sign for sign in "<>"}
# Type, length, and the length again.
EMPTY_BLOCK = 12
MAX_BLOCK = 4 << 20

OPT_END, OPT_COMMENT = 0, 1
SHB_HARDWARE, SHB_OS, SHB_APPLICATION = 2, 3, 4
IF_NAME, IF_TSRESOL, IF_TSOFFSET = 2, 9, 14
ISB_IFRECV, ISB_IFDROP, ISB_OSDROP = 4, 5, 7
# Rounds of the walk over the options of packets; longer lists are not searched for comments.
MAX_PACKET_OPTIONS = 16

_PACKET_FIELDS: dict[int, tuple[tuple[str, str], ...]] = {
    ENHANCED_PACKET: (
        ("interface", "u4"),
        ("high", "u4"),
        ("low", "u4"),
        ("captured", "u4"),
        ("length", "u4"),
    ),
    OLD_PACKET: (
        ("interface", "u2"),
        ("drops", "u2"),
        ("high", "u4"),
        ("low", "u4"),
        ("captured", "u4"),
        ("length", "u4"),
    ),
    SIMPLE_PACKET: (("length", "u4"),),
}


def packet_layout(kind: int, order: str) -> np.dtype[np.void]:
    """Layout of the front of a packet block, up to the packet's first byte.

    Args:
        kind: block type.
        order: struct's sign of the section's byte order.
    """
    fields = (("kind", "u4"), ("size", "u4"), *_PACKET_FIELDS[kind])
    return np.dtype([(name, order + form) for name, form in fields])


# Smallest possible block of each type that holds a packet.
PACKET_BLOCKS = {kind: packet_layout(kind, "<").itemsize + 4 for kind in _PACKET_FIELDS}
# The same of all types with which a damaged chain may go on.
SMALLEST = PACKET_BLOCKS | {SECTION_HEADER: 28, INTERFACE: 20, STATISTICS: 24}


class BlockLayout:
    """What a credible block looks like, see `resync.Layout`.

    Args:
        order: struct's sign of the section's byte order.
    """

    def __init__(self, order: str) -> None:
        self.dtype: np.dtype[np.void] = np.dtype([("kind", order + "u4"), ("size", order + "u4")])
        self._word: np.dtype[np.void] = np.dtype([("v", order + "u4")])

    def credible(self, head: Headers) -> Mask:
        """Whether each header by itself can be real."""
        kind, size = head["kind"], head["size"]
        sound = np.zeros(len(head), np.bool_)
        for known, smallest in SMALLEST.items():
            sound |= (kind == known) & (size >= smallest)
        sound &= (size <= MAX_BLOCK) & (size & 3 == 0)
        return sound

    def size(self, head: Headers) -> Index:
        """Bytes from each header to the next."""
        return head["size"].astype(np.int64)

    def agree(self, data: Bytes, at: Index, head: Headers, following: Headers) -> Mask:
        """Whether each block ends with its length again, and a block can begin behind it."""
        return self.closed(data, at, self.size(head)) & self.credible(following)

    def closed(self, data: Bytes, at: Index, size: Index) -> Mask:
        """Whether each block, all of it present, ends with its length again."""
        same: Mask = rows(data, at + size - 4, self._word)["v"] == size
        return same


@dataclass(frozen=True, slots=True)
class Clock:
    """How the time stamps of an interface are to be read.

    Attributes:
        resolution: if_tsresol; the upper bit tells powers of 2 from powers of 10.
        offset_s: if_tsoffset.
    """

    resolution: int = 6
    offset_s: int = 0

    def to_ns(self, high: np.ndarray, low: np.ndarray) -> Index:
        """Convert time stamps to ns since the epoch; absurd ones wrap, none raises."""
        stamp = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        power = self.resolution & 0x7F
        if self.resolution & 0x80:
            ns = _binary_ns(stamp, min(power, 63))
        elif power <= 9:
            ns = stamp * np.uint64(10 ** (9 - power))
        else:
            ns = stamp // np.uint64(10 ** min(power - 9, 19))
        # As an array: the product of a hostile offset wraps, where a scalar's would warn.
        offset = np.array([self.offset_s], np.int64) * 1_000_000_000
        out: Index = ns.astype(np.int64) + offset
        return out


def _binary_ns(stamp: np.ndarray, power: int) -> np.ndarray:
    seconds = stamp >> np.uint64(power)
    fraction = stamp & np.uint64((1 << power) - 1)
    if power > 34:  # 34 bits are finer than 1 ns, and their product still fits
        fraction >>= np.uint64(power - 34)
        power = 34
    nanos = np.uint64(1_000_000_000)
    return seconds * nanos + ((fraction * nanos) >> np.uint64(power))


def options(raw: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Options of a block as (code, value); ends early where they make no sense."""
    at = 0
    while at + 4 <= len(raw):
        code, size = struct.unpack_from(order + "HH", raw, at)
        value = raw[at + 4 : at + 4 + size]
        if code == OPT_END or len(value) < size:
            return
        yield code, value
        at += 4 + size + (-size & 3)


def comments_in(
    data: Bytes, at: Index, end: Index, order: str, most: int
) -> list[tuple[int, bytes]]:
    """Comments among the options of many blocks.

    Args:
        data: uint8[*].
        at: int64[n], where the options of each block begin.
        end: int64[n], index behind them.
        order: struct's sign of the byte order.
        most: comments to return at most.

    Returns:
        (index of the block, value) pairs.
    """
    layout = np.dtype([("code", order + "u2"), ("size", order + "u2")])
    block = np.flatnonzero(at + 4 <= end)
    at, end = at[block], end[block]
    found: list[tuple[int, bytes]] = []
    for _ in range(MAX_PACKET_OPTIONS):
        if not len(block) or len(found) >= most:
            break
        head = rows(data, at, layout)
        size = head["size"].astype(np.int64)
        whole = at + 4 + size <= end
        for index in np.flatnonzero((head["code"] == OPT_COMMENT) & whole)[: most - len(found)]:
            first = int(at[index]) + 4
            value = data[first : first + int(size[index])].tobytes()
            found.append((int(block[index]), value))
        at = at + 4 + size + (-size & 3)
        onward = (head["code"] != OPT_END) & whole & (at + 4 <= end)
        block, at, end = block[onward], at[onward], end[onward]
    return sorted(found)


def broken_packets(head: Headers, overhead: int) -> Mask:
    """Whether each packet block is impossible by its own fields.

    Args:
        head: fronts of packet blocks of one type.
        overhead: bytes of an empty block of this type.
    """
    size = head["size"].astype(np.int64)
    bad: Mask = (size > MAX_BLOCK) | (size & 3 != 0) | (head["length"] > MAX_WIRE)
    if "captured" in (head.dtype.names or ()):
        captured = head["captured"].astype(np.int64)
        bad |= (captured > MAX_PACKET) | (captured + overhead > size)
    return bad

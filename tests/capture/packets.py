"""Synthetic packets: TCP segments in any IP version, link layer and container."""

from __future__ import annotations

import io
import ipaddress
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.reader import read_segments
from rpcwire.capture.segments import COLUMNS, SegmentBatch

START_NS = 1_700_000_000_123_456_000


@dataclass(frozen=True)
class Segment:
    """A TCP segment to build; addresses are bytes of the last group only."""

    payload: bytes = b""
    src: int = 1
    dst: int = 2
    sport: int = 40000
    dport: int = 50052
    seq: int = 1
    ack: int = 1
    flags: int = 0x18
    window: int = 502
    options: bytes = b""
    time_ns: int = START_NS


def tcp(s: Segment) -> bytes:
    """TCP header and payload; the checksum is left zero, as offload leaves it."""
    offset = (20 + len(s.options)) // 4 << 4
    head = struct.pack(
        ">HHIIBBHHH", s.sport, s.dport, s.seq, s.ack, offset, s.flags, s.window, 0, 0
    )
    return head + s.options + s.payload


def ipv4(
    body: bytes,
    *,
    src: int = 1,
    dst: int = 2,
    protocol: int = 6,
    options: bytes = b"",
    fragment: int = 0x4000,
    total: int | None = None,
) -> bytes:
    """An IPv4 packet between 10.0.0.src and 10.0.0.dst."""
    size = 20 + len(options)
    length = size + len(body) if total is None else total
    addresses = bytes((10, 0, 0, src, 10, 0, 0, dst))
    head = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, length, 7, fragment, 64, protocol, 0)
    return head + addresses + options + body


def ipv6(
    body: bytes,
    *,
    src: int = 1,
    dst: int = 2,
    following: int = 6,
    extensions: bytes = b"",
    payload: int | None = None,
) -> bytes:
    """An IPv6 packet between fd00::src and fd00::dst; `extensions` come before the body."""
    length = len(extensions) + len(body) if payload is None else payload
    addresses = b"".join(ipaddress.ip_address(f"fd00::{n:x}").packed for n in (src, dst))
    return struct.pack(">IHBB", 6 << 28, length, following, 64) + addresses + extensions + body


def network(s: Segment, version: int) -> bytes:
    """The segment in an IP packet."""
    return {4: ipv4, 6: ipv6}[version](tcp(s), src=s.src, dst=s.dst)


ETHERTYPES = {4: b"\x08\x00", 6: b"\x86\xdd"}
FAMILIES = {4: 2, 6: 30}
MACS = bytes.fromhex("020000000002020000000001")


def pktap(inner: int, packet: bytes) -> bytes:
    """Apple's PKTAP header (108 bytes) before a packet of another link type."""
    return struct.pack("<III", 108, 1, inner) + bytes(96) + packet


@dataclass(frozen=True)
class Link:
    """A link layer: its LINKTYPE and how it wraps a network packet."""

    name: str
    number: int
    wrap: Callable[[bytes, int], bytes]


def _ethernet(packet: bytes, version: int) -> bytes:
    return MACS + ETHERTYPES[version] + packet


LINKS = (
    Link("ethernet", 1, _ethernet),
    Link("vlan", 1, lambda p, v: MACS + b"\x81\x00\x00\x05" + ETHERTYPES[v] + p),
    Link("qinq", 1, lambda p, v: MACS + b"\x88\xa8\x00\x05\x81\x00\x00\x06" + ETHERTYPES[v] + p),
    Link("vlan-9100", 1, lambda p, v: MACS + b"\x91\x00\x00\x05" + ETHERTYPES[v] + p),
    Link("padded", 1, lambda p, v: _ethernet(p, v) + b"\xee" * 6),
    Link("null-little", 0, lambda p, v: struct.pack("<I", FAMILIES[v]) + p),
    Link("null-big", 0, lambda p, v: struct.pack(">I", FAMILIES[v]) + p),
    Link("npcap", 0, lambda p, v: struct.pack("<I", {4: 2, 6: 23}[v]) + p),
    Link("loop", 108, lambda p, v: struct.pack(">I", {4: 2, 6: 24}[v]) + p),
    Link("raw", 101, lambda p, v: p),
    Link("raw-12", 12, lambda p, v: p),
    Link("raw-14", 14, lambda p, v: p),
    Link("sll", 113, lambda p, v: struct.pack(">HHHQ", 0, 1, 6, 0) + ETHERTYPES[v] + p),
    Link("sll2", 276, lambda p, v: ETHERTYPES[v] + struct.pack(">HIHBBQ", 0, 3, 1, 0, 6, 0) + p),
    Link("pktap-ethernet", 258, lambda p, v: pktap(1, _ethernet(p, v))),
    Link("pktap-raw", 149, lambda p, v: pktap(12, p)),
    Link("pktap-null", 149, lambda p, v: pktap(0, struct.pack("<I", FAMILIES[v]) + p)),
)

Timed = tuple[int, bytes]


def pcap_file(
    packets: Iterable[Timed],
    link: int,
    *,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    snaplen: int = 262144,
) -> bytes:
    """A pcap file by hand: the writer of the package is not trusted to test the reader."""
    unit = 1 if magic == 0xA1B23C4D else 1000
    extra = bytes(8) if magic == 0xA1B2CD34 else b""
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link)]
    for time_ns, data in packets:
        seconds, rest = divmod(time_ns, 1_000_000_000)
        size = len(data)
        out.append(struct.pack(order + "IIII", seconds, rest // unit, size, size) + extra + data)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block; the body is padded."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"") -> bytes:
    """A section header block."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(
    link: int, order: str = "<", *, resolution: int | None = None, options: bytes = b""
) -> bytes:
    """An interface description block."""
    if resolution is not None:
        options = option(9, bytes((resolution,)), order) + options
    return block(1, struct.pack(order + "HHI", link, 0, 0) + options, order)


def enhanced(
    ticks: int, data: bytes, order: str = "<", *, number: int = 0, options: bytes = b""
) -> bytes:
    """An enhanced packet block."""
    size = len(data)
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
    return block(6, head + data + bytes(-size % 4) + options, order)


def obsolete(ticks: int, data: bytes, order: str = "<", *, number: int = 0) -> bytes:
    """An obsolete packet block."""
    size = len(data)
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
    return block(2, head + data, order)


def simple(data: bytes, order: str = "<") -> bytes:
    """A simple packet block."""
    return block(3, struct.pack(order + "I", len(data)) + data, order)


def pcapng_file(
    packets: Iterable[Timed], link: int, *, order: str = "<", resolution: int | None = None
) -> bytes:
    """A pcapng file of one section, one interface and enhanced packets."""
    per_second = 10**6 if resolution is None else 10**resolution
    if resolution is not None and resolution & 0x80:
        per_second = 2 ** (resolution & 0x7F)
    out = [section(order), interface(link, order, resolution=resolution)]
    for time_ns, data in packets:
        # Upwards, so that a power of 2 gives the same ns back when it is rounded down.
        ticks = -(-time_ns * per_second // 10**9)
        out.append(enhanced(ticks, data, order))
    return b"".join(out)


CONTAINERS: dict[str, Callable[[list[Timed], int], bytes]] = {
    "pcap": pcap_file,
    "pcap-ns": lambda p, n: pcap_file(p, n, magic=0xA1B23C4D),
    "pcap-big": lambda p, n: pcap_file(p, n, order=">"),
    "pcap-big-ns": lambda p, n: pcap_file(p, n, order=">", magic=0xA1B23C4D),
    "pcap-modified": lambda p, n: pcap_file(p, n, magic=0xA1B2CD34),
    "pcapng": pcapng_file,
    "pcapng-ns": lambda p, n: pcapng_file(p, n, resolution=9),
    "pcapng-big": lambda p, n: pcapng_file(p, n, order=">"),
    "pcapng-ps": lambda p, n: pcapng_file(p, n, resolution=10),
    "pcapng-binary": lambda p, n: pcapng_file(p, n, resolution=0x80 | 33),
}


def conversation() -> list[Segment]:
    """A handful of segments with every field in use."""
    return [
        Segment(seq=99, ack=0, flags=2, options=b"\x02\x04\x05\xb4"),
        Segment(src=2, dst=1, sport=50052, dport=40000, seq=4_294_967_295, ack=100, flags=0x12),
        Segment(b"x" * 9, seq=100, ack=0, time_ns=START_NS + 1000),
        Segment(b"reply" * 20, 2, 1, 50052, 40000, 0, 109, time_ns=START_NS + 2_000_000),
        Segment(bytes(range(256)), seq=109, ack=100, time_ns=START_NS + 5_000_000_000),
        Segment(seq=365, ack=100, flags=0x11, window=0, time_ns=START_NS + 5_000_001_000),
    ]


def read(*files: bytes, **options: object) -> tuple[list[SegmentBatch], CaptureHealth]:
    """All batches of files in memory, and the health."""
    reader = read_segments([io.BytesIO(file) for file in files], **options)  # type: ignore
    return list(reader), reader.health


def segments_of(batches: Iterable[SegmentBatch]) -> list[tuple[object, ...]]:
    """Each segment as a tuple of its fields, payload as bytes: comparable between files."""
    out: list[tuple[object, ...]] = []
    names = [name for name in COLUMNS if name not in ("payload", "src", "dst")]
    for batch in batches:
        for i in range(len(batch)):
            first = int(batch.payload[i])
            payload = batch.data[first : first + int(batch.captured[i])].tobytes()
            address = (tuple(batch.src[i].tolist()), tuple(batch.dst[i].tolist()))
            out.append((*(int(getattr(batch, n)[i]) for n in names), address, payload))
    return out


def expected(segments: list[Segment], version: int) -> list[tuple[object, ...]]:
    """What `segments_of` must give for these segments, packets numbered from 1."""
    high, low = (0, 0xFFFF0A000000) if version == 4 else (0xFD00 << 48, 0)
    out: list[tuple[object, ...]] = []
    for number, s in enumerate(segments, 1):
        values = {
            "number": number,
            "file": 0,
            "time_ns": s.time_ns,
            "captured": len(s.payload),
            "length": len(s.payload),
            **{n: getattr(s, n) for n in ("sport", "dport", "seq", "ack", "flags", "window")},
        }
        names = [name for name in COLUMNS if name not in ("payload", "src", "dst")]
        address = ((high, low | s.src), (high, low | s.dst))
        out.append((*(values[n] for n in names), address, s.payload))
    return out


def payload_bytes(batches: Iterable[SegmentBatch]) -> int:
    """Payload bytes on the wire."""
    return int(sum(int(np.sum(batch.length)) for batch in batches))

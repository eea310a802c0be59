"""IP and TCP headers of a batch of packets, all packets at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture import link
from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.packets import Bytes, Index, PacketBatch, rows
from rpcwire.capture.segments import SegmentBatch


def _table(*protocols: int) -> NDArray[np.bool_]:
    """bool[256], True for these protocol numbers."""
    table = np.zeros(256, np.bool_)
    table[list(protocols)] = True
    return table


IPV4 = np.dtype(
    [
        ("version_ihl", "u1"),
        ("tos", "u1"),
        ("total", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("src", ">u4"),
        ("dst", ">u4"),
    ]
)
IPV6 = np.dtype(
    [
        ("version", ">u4"),
        ("payload", ">u2"),
        ("next", "u1"),
        ("hops", "u1"),
        ("src", ">u8", (2,)),
        ("dst", ">u8", (2,)),
    ]
)
EXTENSION = np.dtype([("next", "u1"), ("size", "u1"), ("fragment", ">u2")])
TCP = np.dtype(
    [
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
PROTOCOL_TCP, FRAGMENT_HEADER, AUTHENTICATION = 6, 44, 51
# Hop-by-hop, routing, fragment, AH, destination options, mobility, HIP, Shim6.
IPV6_EXTENSIONS = _table(0, 43, FRAGMENT_HEADER, AUTHENTICATION, 60, 135, 139, 140)
IPV4_EXTENSIONS = _table(AUTHENTICATION)
MAX_EXTENSIONS = 8
V4_MAPPED = 0xFFFF << 32

ETHERTYPE_NAMES = {
    link.LLC: "LLC",
    link.NO_FAMILY: "unknown address family",
    0x0806: "ARP",
    0x8035: "RARP",
    0x8863: "PPPoE",
    0x8864: "PPPoE",
    0x8847: "MPLS",
    0x888E: "EAPOL",
    0x8899: "Realtek",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
}
PROTOCOL_NAMES = {
    1: "ICMP",
    2: "IGMP",
    4: "IP in IP",
    17: "UDP",
    41: "IPv6 in IP",
    47: "GRE",
    50: "ESP",
    58: "ICMPv6",
    59: "IPv6 without payload",
    103: "PIM",
    132: "SCTP",
}


@dataclass(slots=True)
class _Datagrams:
    """IP datagrams whose headers were read: arrays of one length.

    Attributes:
        packet: index in the batch.
        start, end: transport header, and the byte behind the datagram as IP gives it.
        have: byte behind the last captured one (link padding included).
        protocol: IP protocol behind all extension headers.
        src, dst: uint64[n, 2].
    """

    packet: Index
    start: Index
    end: Index
    have: Index
    protocol: NDArray[np.uint8]
    src: NDArray[np.uint64]
    dst: NDArray[np.uint64]

    def keep(self, chosen: NDArray[np.bool_] | Index) -> _Datagrams:
        """The chosen ones; self when that is all of them."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        return _Datagrams(
            self.packet[chosen],
            self.start[chosen],
            self.end[chosen],
            self.have[chosen],
            self.protocol[chosen],
            self.src[chosen],
            self.dst[chosen],
        )


def dissect(batch: PacketBatch, file: int, health: CaptureHealth) -> SegmentBatch:
    """Find the TCP segments of a batch; count everything else.

    Args:
        batch: packets of one file.
        file: index of the file among the inputs.
        health: counts are added here.
    """
    have = batch.offset + batch.captured
    _count(batch, health)
    where, kind = link.network_headers(batch.data, batch.link, batch.offset, have)
    known = np.zeros(len(kind), np.bool_)
    groups = []
    for ethertype, header, read in (
        (link.ETHERTYPE_IPV4, IPV4, _ipv4),
        (link.ETHERTYPE_IPV6, IPV6, _ipv6),
    ):
        mine = kind == ethertype
        known |= mine
        whole = mine & (where + header.itemsize <= have)
        health.cut_headers += int(np.count_nonzero(mine)) - int(np.count_nonzero(whole))
        chosen = np.flatnonzero(whole)
        if len(chosen):
            groups.append(read(batch, chosen, where[chosen], health))
    if not known.all():
        _count_kinds(kind[~known], health)
    return _tcp(batch, file, _join(groups), health)


def _count(batch: PacketBatch, health: CaptureHealth) -> None:
    if not len(batch):
        return
    first, last = int(batch.time_ns.min()), int(batch.time_ns.max())
    health.packets += len(batch)
    health.wire_bytes += int(batch.length.sum())
    health.captured_bytes += int(batch.captured.sum())
    health.truncated_packets += int(np.count_nonzero(batch.captured < batch.length))
    health.first_ns = first if health.first_ns is None else min(first, health.first_ns)
    health.last_ns = last if health.last_ns is None else max(last, health.last_ns)
    numbers = [batch.link[0]] if (batch.link == batch.link[0]).all() else np.unique(batch.link)
    for number in numbers:
        name = link.link_name(int(number)) if number >= 0 else "unknown"
        if name not in health.link_types and len(health.link_types) < 100:
            health.link_types.append(name)


def _count_kinds(kind: link.Types, health: CaptureHealth) -> None:
    for value, count in zip(*np.unique(kind, return_counts=True), strict=True):
        if value == link.CUT:
            health.cut_headers += int(count)
        elif value == link.NO_LINK:
            health.other("unknown link type", int(count))
        else:
            name = ETHERTYPE_NAMES.get(int(value), f"ethertype 0x{int(value):04x}")
            health.other(name, int(count))


def _count_protocols(protocol: NDArray[np.uint8], health: CaptureHealth) -> None:
    for value, count in zip(*np.unique(protocol, return_counts=True), strict=True):
        health.other(PROTOCOL_NAMES.get(int(value), f"IP protocol {value}"), int(count))


def _ipv4(batch: PacketBatch, packet: Index, where: Index, health: CaptureHealth) -> _Datagrams:
    wire_end = batch.offset[packet] + batch.length[packet]
    have = batch.offset[packet] + batch.captured[packet]
    head = rows(batch.data, where, IPV4)
    first = head["version_ihl"]
    header = (first & 15).astype(np.int64) * 4
    total = head["total"].astype(np.int64)
    # Zero means that segmentation was left to the network card: the packet is all there is.
    total = np.where(total == 0, wire_end - where, total)
    sound = (first >> 4 == 4) & (header >= IPV4.itemsize) & (total >= header)
    piece = sound & ((head["fragment"] & 0x3FFF) != 0)
    health.malformed += _misses(sound)
    health.fragments += int(np.count_nonzero(piece))
    src, dst = _mapped(head["src"]), _mapped(head["dst"])
    protocol = head["protocol"].astype(np.uint8)
    found = _Datagrams(packet, where + header, where + total, have, protocol, src, dst)
    return _extensions(batch.data, found.keep(sound & ~piece), IPV4_EXTENSIONS, health)


def _ipv6(batch: PacketBatch, packet: Index, where: Index, health: CaptureHealth) -> _Datagrams:
    wire_end = batch.offset[packet] + batch.length[packet]
    have = batch.offset[packet] + batch.captured[packet]
    head = rows(batch.data, where, IPV6)
    start = where + IPV6.itemsize
    size = head["payload"].astype(np.int64)
    end = np.where(size == 0, wire_end, start + size)
    sound = (head["version"] >> 28 == 6) & (end >= start)
    health.malformed += _misses(sound)
    src, dst = head["src"].astype(np.uint64), head["dst"].astype(np.uint64)
    protocol = head["next"].astype(np.uint8)
    found = _Datagrams(packet, start, end, have, protocol, src, dst)
    return _extensions(batch.data, found.keep(sound), IPV6_EXTENSIONS, health)


def _extensions(
    data: Bytes, found: _Datagrams, known: NDArray[np.bool_], health: CaptureHealth
) -> _Datagrams:
    """Walk over extension headers to the transport header; drop what ends on the way."""
    for _ in range(MAX_EXTENSIONS):
        chosen = np.flatnonzero(known[found.protocol])
        if not len(chosen):
            return found
        at = found.start[chosen]
        drop = np.zeros(len(found.packet), np.bool_)
        whole = at + 8 <= np.minimum(found.have[chosen], found.end[chosen])
        short = at + 8 > found.end[chosen]
        drop[chosen[~whole]] = True
        health.malformed += int(np.count_nonzero(short))
        health.cut_headers += int(np.count_nonzero(~whole & ~short))
        chosen, at = chosen[whole], at[whole]
        head = rows(data, at, EXTENSION)
        kind = found.protocol[chosen]
        size = (head["size"].astype(np.int64) + 1) * 8
        size[kind == AUTHENTICATION] = (head["size"][kind == AUTHENTICATION].astype(int) + 2) * 4
        size[kind == FRAGMENT_HEADER] = 8
        # An offset or "more fragments": the rest of the datagram is elsewhere.
        piece = (kind == FRAGMENT_HEADER) & ((head["fragment"] & 0xFFF9) != 0)
        health.fragments += int(np.count_nonzero(piece))
        drop[chosen[piece]] = True
        found.start[chosen] = at + size
        found.protocol[chosen] = head["next"]
        found = found.keep(~drop)
    rest = known[found.protocol]
    health.malformed += int(np.count_nonzero(rest))
    return found.keep(~rest)


def _tcp(batch: PacketBatch, file: int, found: _Datagrams, health: CaptureHealth) -> SegmentBatch:
    is_tcp = found.protocol == PROTOCOL_TCP
    if not is_tcp.all():
        _count_protocols(found.protocol[~is_tcp], health)
        found = found.keep(is_tcp)
    fits = found.start + TCP.itemsize <= found.end
    whole = found.start + TCP.itemsize <= found.have
    health.malformed += _misses(fits)
    health.cut_headers += int(np.count_nonzero(fits & ~whole))
    found = found.keep(fits & whole)
    head = rows(batch.data, found.start, TCP)
    header = (head["offset"] >> 4).astype(np.int64) * 4
    payload = found.start + header
    sound = (header >= TCP.itemsize) & (payload <= found.end)
    health.malformed += _misses(sound)
    if not sound.all():
        found, head, payload = found.keep(sound), head[sound], payload[sound]
    health.tcp_packets += len(payload)
    count = len(batch)
    all_packets = len(found.packet) == count
    return SegmentBatch(
        data=batch.data,
        number=batch.number + found.packet,
        file=np.full(len(payload), file, np.int16),
        time_ns=batch.time_ns if all_packets else batch.time_ns[found.packet],
        src=found.src,
        dst=found.dst,
        sport=head["sport"].astype(np.uint16),
        dport=head["dport"].astype(np.uint16),
        seq=head["seq"].astype(np.uint32),
        ack=head["ack"].astype(np.uint32),
        flags=head["flags"].astype(np.uint8),
        window=head["window"].astype(np.uint16),
        payload=payload,
        captured=np.maximum(np.minimum(found.have, found.end) - payload, 0),
        length=found.end - payload,
        last_number=batch.number + count - 1,
    )


def _join(groups: list[_Datagrams]) -> _Datagrams:
    if len(groups) == 1:
        return groups[0]
    if not groups:
        none = np.zeros(0, np.int64)
        address = np.zeros((0, 2), np.uint64)
        return _Datagrams(none, none, none, none, np.zeros(0, np.uint8), address, address)
    both = _Datagrams(
        *(
            np.concatenate([getattr(g, name) for g in groups])
            for name in ("packet", "start", "end", "have", "protocol", "src", "dst")
        )
    )
    return both.keep(np.argsort(both.packet, kind="stable"))


def _mapped(address: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """IPv4 addresses as ::ffff:a.b.c.d."""
    out = np.zeros((len(address), 2), np.uint64)
    out[:, 1] = address
    out[:, 1] |= np.uint64(V4_MAPPED)
    return out


def _misses(mask: NDArray[np.bool_]) -> int:
    return len(mask) - int(np.count_nonzero(mask))

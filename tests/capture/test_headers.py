"""What is TCP, how long it is, and how everything else is counted."""

from __future__ import annotations

import struct

import pytest

from .packets import (
    LINKS,
    MACS,
    START_NS,
    Segment,
    enhanced,
    interface,
    ipv4,
    ipv6,
    network,
    option,
    pcap_file,
    pktap,
    read,
    section,
    segments_of,
    tcp,
)

SEGMENT = Segment(b"payload bytes", seq=7)
UDP = struct.pack(">HHHH", 53, 53, 8, 0)


def cut_file(packet: bytes, captured: int, link: int = 101) -> bytes:
    """A pcap file of one packet, cut by the snap length."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, captured, link)
    return head + struct.pack("<IIII", 1, 0, captured, len(packet)) + packet[:captured]


def only(packet: bytes, link: int = 101) -> tuple[list[tuple[object, ...]], object]:
    batches, health = read(pcap_file([(START_NS, packet)], link))
    return segments_of(batches), health


def authentication(following: int) -> bytes:
    return bytes((following, 4, 0, 0)) + bytes(20)


def extension(following: int, size: int = 8) -> bytes:
    return bytes((following, size // 8 - 1)) + bytes(size - 2)


@pytest.mark.parametrize(
    "packet",
    [
        ipv4(tcp(SEGMENT), options=bytes(40)),
        ipv4(authentication(6) + tcp(SEGMENT), protocol=51),
        ipv4(tcp(SEGMENT), total=0),
        ipv6(tcp(SEGMENT), following=0, extensions=extension(6, 16)),
        ipv6(tcp(SEGMENT), following=43, extensions=extension(60) + extension(6)),
        ipv6(tcp(SEGMENT), following=51, extensions=authentication(6)),
        ipv6(tcp(SEGMENT), following=44, extensions=bytes((6, 0, 0, 0, 1, 2, 3, 4))),
        ipv6(tcp(SEGMENT), payload=0),
    ],
)
def test_headers_before_tcp(packet: bytes) -> None:
    (found,), health = only(packet)
    assert found[-1] == SEGMENT.payload
    assert health.tcp_packets == 1 and health.malformed == 0


def test_large_packet_with_offloaded_length() -> None:
    payload = bytes(100_000)
    (found,), _ = only(MACS + b"\x08\x00" + ipv4(tcp(Segment(payload)), total=0), 1)
    assert found[-1] == payload


def test_ethernet_padding_is_not_payload() -> None:
    (found,), _ = only(LINKS[0].wrap(network(Segment(b"ab"), 4), 4) + bytes(4), 1)
    assert found[-1] == b"ab"


@pytest.mark.parametrize(
    "packet",
    [
        ipv4(tcp(SEGMENT), fragment=0x2000),
        ipv4(tcp(SEGMENT), fragment=0x0005),
        ipv6(tcp(SEGMENT), following=44, extensions=bytes((6, 0, 0, 1, 0, 0, 0, 1))),
        ipv6(tcp(SEGMENT), following=44, extensions=bytes((6, 0, 0, 8, 0, 0, 0, 1))),
    ],
)
def test_fragments_are_counted(packet: bytes) -> None:
    found, health = only(packet)
    assert found == [] and health.fragments == 1


@pytest.mark.parametrize(
    ("link", "packet", "kind"),
    [
        (101, ipv4(UDP, protocol=17), "UDP"),
        (101, ipv6(bytes(8), following=58), "ICMPv6"),
        (101, ipv4(bytes(8), protocol=200), "IP protocol 200"),
        (1, MACS + b"\x08\x06" + bytes(28), "ARP"),
        (1, MACS + b"\x00\x26" + bytes(38), "LLC"),
        (1, MACS + b"\x12\x34" + bytes(38), "ethertype 0x1234"),
        (0, struct.pack("<I", 7) + bytes(40), "unknown address family"),
        (101, b"\x50" + bytes(40), "unknown address family"),
        (147, bytes(40), "unknown link type"),
        (258, pktap(147, bytes(40)), "unknown link type"),
        (258, pktap(258, pktap(1, bytes(40))), "unknown link type"),
    ],
)
def test_other_packets_are_counted_by_kind(link: int, packet: bytes, kind: str) -> None:
    found, health = only(packet, link)
    assert found == [] and health.other_packets == {kind: 1}


@pytest.mark.parametrize(
    "packet",
    [
        b"\x44" + ipv4(tcp(SEGMENT))[1:],
        ipv4(tcp(SEGMENT), total=19),
        ipv4(tcp(SEGMENT), total=30),
        ipv4(tcp(SEGMENT)[:12] + b"\x40" + tcp(SEGMENT)[13:]),
        ipv4(tcp(Segment())[:12] + b"\xf0" + tcp(Segment())[13:]),
        ipv6(tcp(SEGMENT), following=0, extensions=extension(0) * 10),
        ipv6(b"", following=60, extensions=bytes(4)),
    ],
)
def test_contradictions_are_counted(packet: bytes) -> None:
    found, health = only(packet)
    assert found == [] and health.malformed == 1


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("version", [4, 6])
def test_every_snap_length(link: object, version: int) -> None:
    packet = link.wrap(network(SEGMENT, version), version)
    padding = 6 if link.name == "padded" else 0
    first = len(packet) - padding - len(SEGMENT.payload)
    for captured in range(1, len(packet)):
        batches, health = read(cut_file(packet, captured, link.number))
        found = segments_of(batches)
        assert health.truncated_packets == 1
        assert health.cut_headers == (captured < first)
        assert [s[-1] for s in found] == (
            [SEGMENT.payload[: captured - first]] if captured >= first else []
        )
        assert all(int(batch.length[0]) == len(SEGMENT.payload) for batch in batches)


def test_options_cut_by_the_snap_length() -> None:
    packet = ipv4(tcp(Segment(b"data", options=bytes(12))))
    batches, _ = read(cut_file(packet, 45))
    assert (int(batches[0].captured[0]), int(batches[0].length[0])) == (0, 4)


@pytest.mark.parametrize("resolution", [0, 3, 20, 30, 127, 128, 0x80 | 40, 0xFF])
def test_any_time_resolution(resolution: int) -> None:
    options = option(9, bytes((resolution,))) + option(14, b"\xff" * 7 + b"\x7f")
    data = section() + interface(101, options=options) + enhanced(2**64 - 1, network(SEGMENT, 4))
    assert [s[-1] for s in segments_of(read(data)[0])] == [SEGMENT.payload]
    plain = section() + interface(101, resolution=3) + enhanced(5, network(SEGMENT, 4))
    assert read(plain)[0][0].time_ns.tolist() == [5_000_000]

"""The same packets in each container, link type, IP version and precision give equal segments."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.parser import PacketParser, SegmentParser
from rpcwire.capture.reader import read_segments
from rpcwire.capture.writer import PcapngWriter, PcapWriter
from rpcwire.errors import CaptureError

from .packets import (
    CONTAINERS,
    LINKS,
    START_NS,
    Link,
    Segment,
    block,
    conversation,
    enhanced,
    expected,
    interface,
    network,
    obsolete,
    option,
    pcap_file,
    pcapng_file,
    read,
    section,
    segments_of,
    simple,
)


def timed(segments: list[Segment], link: Link, version: int) -> list[tuple[int, bytes]]:
    return [(s.time_ns, link.wrap(network(s, version), version)) for s in segments]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("container", CONTAINERS)
def test_same_segments(container: str, link: Link, version: int) -> None:
    segments = conversation()
    packets = timed(segments, link, version)
    batches, health = read(CONTAINERS[container](packets, link.number))
    assert segments_of(batches) == expected(segments, version)
    assert health.packets == health.tcp_packets == len(segments)
    assert health.wire_bytes == sum(len(data) for _, data in packets)
    assert health.notes == [] and health.other_packets == {}
    assert (health.first_ns, health.last_ns) == (START_NS, segments[-1].time_ns)


def ethernet(segments: list[Segment]) -> list[tuple[int, bytes]]:
    return timed(segments, LINKS[0], 4)


def test_both_ip_versions_stay_in_order() -> None:
    link = LINKS[0]
    packets = [
        (s.time_ns, link.wrap(network(s, version), version))
        for s, version in zip(conversation(), (4, 6, 4, 6, 6, 4), strict=True)
    ]
    (batch,), _ = read(pcap_file(packets, 1))
    assert batch.number.tolist() == [1, 2, 3, 4, 5, 6]
    assert (batch.src[:, 0] == 0).tolist() == [True, False, True, False, False, True]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("container", CONTAINERS)
def test_pieces_of_any_size(container: str, size: int) -> None:
    data = CONTAINERS[container](ethernet(conversation()), 1)
    parser = SegmentParser(CaptureHealth(), "test")
    batches = []
    for at in range(0, len(data), size):
        batches += [b for b in parser.feed(data[at : at + size]) if len(b)]
    batches += list(parser.finish())
    assert segments_of(batches) == expected(conversation(), 4)


def test_packets_come_as_soon_as_they_are_complete() -> None:
    data = pcap_file(ethernet(conversation()[:2]), 1)
    parser = PacketParser(CaptureHealth(), "test")
    assert [batch.number for batch in parser.feed(data[:-1])] == [1]
    (batch,) = parser.feed(data[-1:])
    assert (batch.number, len(batch)) == (2, 1)


@pytest.mark.parametrize("container", ["pcap", "pcapng"])
def test_gzip_members(container: str) -> None:
    data = CONTAINERS[container](ethernet(conversation()), 1)
    packed = gzip.compress(data[:500]) + gzip.compress(data[500:]) + bytes(100)
    batches, health = read(packed)
    assert segments_of(batches) == expected(conversation(), 4)
    assert health.notes == []


def test_zstd_frames() -> None:
    zstd = pytest.importorskip("zstandard")
    data = pcap_file(ethernet(conversation()), 1)
    batches, health = read(zstd.compress(data[:500]) + zstd.compress(data[500:]))
    assert segments_of(batches) == expected(conversation(), 4)
    assert health.notes == []
    noise = [Segment(random.Random(1).randbytes(60_000), time_ns=START_NS)] * 5
    packed = zstd.compress(pcap_file(ethernet(noise), 1))
    batches, health = read(packed[:-9])
    assert health.packets >= 2
    assert "zstd data is cut off" in health.notes[0]


def test_several_sections_and_interfaces() -> None:
    first, second, third = conversation()[2:5]
    wrapped = [link.wrap(network(s, 4), 4) for s, link in zip((first, second), LINKS, strict=False)]
    raw = network(third, 4)
    offset_s = 1_000_000_000
    data = b"".join(
        [
            section("<"),
            interface(1, resolution=9),
            interface(101, resolution=6, options=option(14, struct.pack("<q", offset_s))),
            enhanced(first.time_ns, wrapped[0]),
            block(0x7777, b"unknown"),
            enhanced(second.time_ns // 1000 - offset_s * 10**6, network(second, 4), number=1),
            section(">"),
            interface(101, ">", resolution=9),
            enhanced(third.time_ns, raw, ">"),
        ]
    )
    batches, health = read(data)
    assert segments_of(batches) == expected([first, second, third], 4)
    assert health.link_types == ["ETHERNET", "RAW"]
    assert health.skipped_blocks == 1
    assert [i.link_type for i in health.interfaces] == [1, 101, 101]


def test_obsolete_and_simple_packet_blocks() -> None:
    first, second = conversation()[2:4]
    data = b"".join(
        [
            section(),
            interface(101, resolution=9),
            obsolete(first.time_ns, network(first, 4)),
            simple(network(second, 4)),
        ]
    )
    batches, health = read(data)
    numbers = [(s[2], s[-1]) for s in segments_of(batches)]
    assert numbers == [(first.time_ns, first.payload), (first.time_ns, second.payload)]
    assert "without a time" in health.notes[0]


def test_packet_of_an_interface_nobody_described() -> None:
    _, health = read(section() + enhanced(0, network(Segment(b"x"), 4)))
    assert health.other_packets == {"unknown link type": 1}
    assert "does not describe" in health.notes[0]


def test_writers_give_back_what_was_written() -> None:
    out, plain = io.BytesIO(), io.BytesIO()
    writer = PcapngWriter(
        out, comments=["why", "it was"], hardware="box", os="Linux", application="rpcwire"
    )
    number = writer.interface(1, name="lo", snaplen=65535)
    pcap = PcapWriter(plain, 1)
    for (time_ns, data), comment in zip(ethernet(conversation()), "abcdef", strict=True):
        writer.packet(time_ns + 1, data, interface=number, comment=comment)
        pcap.packet(time_ns + 1, data)
    writer.statistics(START_NS, interface=number, received=10, dropped=3, os_dropped=1)
    batches, health = read(out.getvalue())
    assert segments_of(batches) == segments_of(read(plain.getvalue())[0])
    assert batches[0].time_ns[0] == START_NS + 1
    assert health.comments[:3] == ["why", "it was", "packet 1: a"]
    assert len(health.comments) == 8
    assert health.made_by == ["box", "Linux", "rpcwire"]
    (described,) = health.interfaces
    assert (described.name, described.received, described.dropped) == ("lo", 10, 3)
    assert described.os_dropped == 1


def test_comment_behind_other_options() -> None:
    options = option(2, b"\0\0\0\1") + option(1, b"here") + option(0, b"")
    data = section() + interface(101) + enhanced(0, network(Segment(), 4), options=options)
    assert read(data)[1].comments == ["packet 1: here"]


def test_path_and_progress(tmp_path: Path) -> None:
    path = tmp_path / "misnamed.txt"
    path.write_bytes(gzip.compress(pcapng_file(ethernet(conversation()), 1)))
    reader = read_segments([path])
    assert segments_of(reader) == expected(conversation(), 4)
    assert reader.progress.read == reader.progress.total == path.stat().st_size
    assert reader.health.files == [str(path)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\xd4\xc3", "not a capture: it ends after 2 bytes"),
        (b"hello world, this is text", "not a capture: it begins with 68 65 6c 6c"),
        (gzip.compress(b"hello world"), "not a capture: it begins with 68 65 6c 6c"),
        (gzip.compress(b""), "nothing in it could be decompressed"),
        (pcap_file([], 1)[:20], "its header is not whole"),
        (section()[:20], "its header is not whole"),
        (b"\x0a\x0d\x0d\x0a" + bytes(500), "its header is not whole"),
    ],
)
def test_no_capture(data: bytes, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        read(data)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        read_segments([tmp_path / "nothing.pcap"])
    with pytest.raises(CaptureError, match="Is a directory"):
        read_segments([tmp_path])


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_agrees(tmp_path: Path) -> None:
    captures = Path(__file__).parents[2] / "captures"
    files = [path for path in sorted(captures.rglob("*.pcap*")) if path.is_file()]
    made = tmp_path / "made.pcapng"
    made.write_bytes(pcapng_file(timed(conversation(), LINKS[2], 6), 1))
    for path in [made, *files[:3]]:
        command = ["tshark", "-r", str(path), "-o", "tcp.desegment_tcp_streams:false"]
        fields = ["-T", "fields", "-e", "frame.number", "-e", "tcp.len"]
        done = subprocess.run(command + fields, capture_output=True, text=True, check=True)
        lengths = {}
        for line in done.stdout.splitlines():
            number, _, length = line.partition("\t")
            if length:
                lengths[int(number)] = int(length)
        ours = {}
        for batch in read_segments([path]):
            ours.update(zip(batch.number.tolist(), batch.length.tolist(), strict=True))
        assert ours == lengths

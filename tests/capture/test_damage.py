"""Damaged, cut and hostile files: what can be read is read, the rest is named."""

from __future__ import annotations

import gzip
import random
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.capture.health import MAX_REMARKS
from rpcwire.errors import CaptureError

from .packets import (
    CONTAINERS,
    START_NS,
    Segment,
    block,
    conversation,
    enhanced,
    expected,
    interface,
    network,
    pcap_file,
    read,
    section,
    segments_of,
    simple,
)


def packets(count: int, size: int = 100) -> list[tuple[int, bytes]]:
    rng = random.Random(count)
    return [
        (START_NS + n * 1000, network(Segment(rng.randbytes(size), seq=n * size), 4))
        for n in range(count)
    ]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_cut_point(container: str) -> None:
    segments = conversation()
    data = CONTAINERS[container]([(s.time_ns, network(s, 4)) for s in segments], 101)
    whole = expected(segments, 4)
    sizes = set()
    for cut in range(len(data)):
        try:
            batches, health = read(data[:cut])
        except CaptureError:
            assert cut < 28
            continue
        found = segments_of(batches)
        assert found == whole[: len(found)] and len(found) < len(whole)
        at_boundary = not health.notes or health.notes == ["no packet was captured"]
        assert at_boundary or "ends inside packet" in health.notes[0]
        sizes.add((len(found), at_boundary))
    assert sizes == {(n, whole) for n in range(len(whole)) for whole in (False, True)}


@pytest.mark.parametrize("container", ["pcap", "pcapng"])
def test_cut_gzip(container: str) -> None:
    data = CONTAINERS[container](packets(500), 101)
    packed = gzip.compress(data)
    batches, health = read(packed[: len(packed) // 2])
    assert 200 < health.packets < 300
    assert segments_of(batches) == segments_of(read(data)[0])[: health.packets]
    assert "gzip data is cut off" in health.notes[0]


def test_damaged_gzip() -> None:
    data = pcap_file(packets(500), 101)
    packed = bytearray(gzip.compress(data))
    packed[len(packed) // 2] ^= 0x55
    packed[len(packed) // 2 + 1] ^= 0x55
    batches, health = read(bytes(packed))
    assert any("damaged" in note for note in health.notes)
    found = segments_of(batches)
    assert len(found) > 200
    assert found[:200] == segments_of(read(data)[0])[:200]
    wrong_sum = gzip.compress(data)[:-8] + bytes(8)
    _, health = read(wrong_sum)
    assert health.packets == 500 and "gzip data is damaged" in health.notes[0]
    _, health = read(gzip.compress(data) + b"and more")
    assert health.packets == 500 and "after the end of the gzip data" in health.notes[0]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("garbage", [b"\xff", b"\x00", b"\x01", None])
def test_comes_back_into_step(container: str, garbage: bytes | None) -> None:
    data = bytearray(CONTAINERS[container](packets(300), 101))
    whole = segments_of(read(bytes(data))[0])
    at, size = len(data) // 2, 2000
    data[at : at + size] = garbage * size if garbage else random.Random(5).randbytes(size)
    batches, health = read(bytes(data))
    found = segments_of(batches)
    # Numbers shift behind the place; everything else must be the same.
    before = [s for s in found if s in whole]
    bare = {s[1:] for s in whole}
    assert len(before) >= 140
    good = [s for s in found if s[1:] in bare]
    assert len(good) >= 300 - 2000 // 156 - 3
    assert len(found) - len(good) <= 1  # the packet whose payload the damage begins in
    assert health.skipped_bytes > 1000
    assert any(f"{health.skipped_bytes:,} bytes were skipped" in note for note in health.notes)


@pytest.mark.parametrize("container", CONTAINERS)
def test_missing_stretch(container: str) -> None:
    data = CONTAINERS[container](packets(300), 101)
    whole = {s[1:] for s in segments_of(read(data)[0])}
    middle = len(data) // 2
    batches, _ = read(data[:middle] + data[middle + 1777 :])
    good = sum(s[1:] in whole for s in segments_of(batches))
    assert good >= 300 - 1777 // 156 - 3


@pytest.mark.parametrize("claim", [0x7FFFFFFF, 0xFFFFFFFF, 300_000, 200_000])
def test_wrong_length_near_the_end(claim: int) -> None:
    data = bytearray(pcap_file(packets(100), 101))
    struct.pack_into("<I", data, 24 + 50 * 156 + 8, claim)
    _, health = read(bytes(data))
    assert health.packets == 99
    assert "156 bytes were skipped before packet 51" in health.notes[0]


def test_trailing_zeros() -> None:
    for name, make in CONTAINERS.items():
        _, health = read(make(packets(10), 101) + bytes(100_000))
        assert health.packets == 10, name
        assert "100,000 bytes were skipped to the end" in health.notes[0]


def timed(data: bytes, seconds: float = 10.0) -> None:
    """Read hostile bytes within so much processor time (other load on the machine aside)."""
    start = time.process_time()
    try:
        _, health = read(data)
        assert len(health.notes) <= MAX_REMARKS and len(health.comments) <= MAX_REMARKS
    except CaptureError:
        pass
    assert time.process_time() - start < seconds


PACKET = network(Segment(b"x"), 4)
MILLION = 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        pcap_file([], 1) + bytes(MILLION),
        pcap_file([], 1) + b"\xff" * MILLION,
        pcap_file([], 1) + struct.pack("<IIII", 1, 1, 0, 1) * 60_000,
        pcap_file([], 1) + (struct.pack("<IIII", 1, 1, 1, 1) + b"x") * 60_000,
        pcap_file([], 1) + struct.pack("<IIII", 1, 1, 8, 8) * 60_000,
        pcap_file([], 1) + (pcap_file(packets(5, 1), 1)[24:] + b"\xff" * 20) * 3000,
        section() * 40_000,
        section() + interface(101) * 50_000,
        (section() + interface(101) + enhanced(1, PACKET)) * 4000,
        (section(">") + interface(101, ">") + section("<")) * 10_000,
        section() + interface(101) + (enhanced(1, PACKET) + simple(PACKET)) * 4000,
        section() + interface(101) + block(6, b"") * 60_000,
        section() + interface(101) + struct.pack("<II", 6, 0) * 100_000,
        section() + interface(101) + struct.pack("<II", 6, 0xFFFFFFFC) * 100_000,
        section() + interface(101) + (enhanced(1, PACKET) + b"\xff" * 20) * 4000,
        section(options=struct.pack("<HH", 1, 0) * 200_000),
        section() + interface(101) + enhanced(1, PACKET, options=b"\1\0\0\0" * 200_000),
        gzip.compress(pcap_file([], 1) + bytes(100 * MILLION)),
    ],
    ids=range(18),
)
def test_hostile_files_take_bounded_time(data: bytes) -> None:
    timed(data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([b"", *(make([], 1)[:28] for make in CONTAINERS.values())]), st.binary())
def test_any_bytes(head: bytes, body: bytes) -> None:
    try:
        read(head + body)
        read(gzip.compress(head + body))
    except CaptureError as error:
        assert "\n" not in str(error)


BASES = [make(packets(12, 20), 101) for make in CONTAINERS.values()]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(BASES),
    st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=8), st.booleans()), max_size=6),
)
def test_mutated_captures(data: bytes, changes: list[tuple[int, bytes, bool]]) -> None:
    mutated = bytearray(data)
    for at, value, insert in changes:
        mutated[at : at if insert else at + len(value)] = value
    try:
        batches, health = read(bytes(mutated))
    except CaptureError:
        return
    for batch in batches:
        assert (batch.captured >= 0).all() and (batch.captured <= batch.length).all()
        inside = batch.captured > 0
        end = (batch.payload + batch.captured)[inside]
        assert (end <= len(batch.data)).all() and (batch.payload >= 0).all()
        assert (batch.number[1:] > batch.number[:-1]).all()
    assert health.captured_bytes <= len(mutated)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(BASES), st.lists(st.integers(1, 400), min_size=1, max_size=8))
def test_pieces_do_not_matter(data: bytes, sizes: list[int]) -> None:
    from rpcwire.capture.health import CaptureHealth
    from rpcwire.capture.parser import SegmentParser

    damaged = bytearray(data)
    damaged[400:440] = b"\xff" * 40
    parser = SegmentParser(CaptureHealth(), "the capture")
    batches, at, turn = [], 0, 0
    while at < len(damaged):
        size = sizes[turn % len(sizes)]
        batches += list(parser.feed(bytes(damaged[at : at + size])))
        at, turn = at + size, turn + 1
    batches += list(parser.finish())
    assert segments_of(batches) == segments_of(read(bytes(damaged))[0])

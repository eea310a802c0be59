"""Several files as one run, and time windows."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rpcwire.capture.reader import read_segments
from rpcwire.errors import CaptureError, UsageError

from .packets import START_NS, Segment, network, pcap_file, pcapng_file, read, segments_of

SECOND = 1_000_000_000


def segments(count: int, first_s: float = 0, step_s: float = 1) -> list[Segment]:
    start = START_NS + int(first_s * SECOND)
    return [
        Segment(bytes((n % 256,)) * (n % 5), seq=n, time_ns=start + int(n * step_s * SECOND))
        for n in range(count)
    ]


def packets(chosen: list[Segment]) -> list[tuple[int, bytes]]:
    return [(s.time_ns, network(s, 4)) for s in chosen]


def write(path: Path, chosen: list[Segment]) -> Path:
    path.write_bytes(pcap_file(packets(chosen), 101))
    return path


def test_ring_buffer_in_any_order(tmp_path: Path) -> None:
    whole = segments(30)
    parts = [write(tmp_path / f"{n}", whole[n * 10 : n * 10 + 10]) for n in range(3)]
    reader = read_segments([parts[2], parts[0], parts[1]])
    found = segments_of(reader)
    assert [s[-1] for s in found] == [s.payload for s in whole]
    assert [s[1] for s in found] == [1] * 10 + [2] * 10 + [0] * 10
    assert reader.health.packets == 30
    assert reader.progress.read == reader.progress.total


def test_two_interfaces_are_merged_by_time(tmp_path: Path) -> None:
    one, two = segments(40, 0, 0.5), segments(10, 3.2, 1)
    late = segments(5, 100)
    files = [write(tmp_path / n, s) for n, s in (("a", one), ("b", late), ("c", two))]
    found = segments_of(read_segments(files))
    expected = sorted([*one, *two, *late], key=lambda s: s.time_ns)
    assert [(s[2], s[-1]) for s in found] == [(s.time_ns, s.payload) for s in expected]


def test_merge_of_large_overlapping_files_is_stable(tmp_path: Path) -> None:
    one = segments(20_000, 0, 0.001)
    two = [replace(s, payload=s.payload + b"other", dport=1) for s in one]
    files = [write(tmp_path / "a", one), write(tmp_path / "b", two)]
    found = segments_of(read_segments(files))
    assert len(found) == 40_000
    times = [s[2] for s in found]
    assert times == sorted(times)
    for file, chosen in enumerate((one, two)):
        mine = [(s[0], s[-1]) for s in found if s[1] == file]
        assert mine == [(n, s.payload) for n, s in enumerate(chosen, 1)]
    # At equal times the first file goes first.
    assert all(a[1] <= b[1] for a, b in pairwise(found) if a[2] == b[2])


def test_order_within_a_file_is_kept(tmp_path: Path) -> None:
    jumping = segments(10)
    jumping[3], jumping[7] = jumping[7], jumping[3]
    other = segments(10, 0.5)
    files = [write(tmp_path / "a", jumping), write(tmp_path / "b", other)]
    found = segments_of(read_segments(files))
    assert [s[-1] for s in found if s[1] == 0] == [s.payload for s in jumping]
    assert len(found) == 20


def test_memory_and_paths_mix(tmp_path: Path) -> None:
    batches, health = read(
        pcap_file(packets(segments(5)), 101), pcapng_file(packets(segments(5, 2)), 101)
    )
    assert len(segments_of(batches)) == health.packets == 10


def test_a_file_that_is_no_capture_is_left_out(tmp_path: Path) -> None:
    good, empty = write(tmp_path / "good", segments(3)), tmp_path / "empty"
    empty.write_bytes(b"")
    reader = read_segments([empty, good])
    assert len(segments_of(reader)) == 3
    assert reader.health.notes[0].startswith(f"left out: {empty} is empty")
    with pytest.raises(CaptureError, match="is empty"):
        list(read_segments([empty, empty]))


def test_number_of_files() -> None:
    with pytest.raises(UsageError):
        read_segments([])


def test_pipe_is_read_as_it_fills() -> None:
    data = pcap_file(packets(segments(4)), 101)
    half = pcap_file(packets(segments(2)), 101)
    source, sink = os.pipe()
    with open(source, "rb") as stream, open(sink, "wb", buffering=0) as writer:
        batches = iter(read_segments([stream]))
        writer.write(half + data[len(half) : len(half) + 5])
        assert next(batches).number.tolist() == [1, 2]
        writer.write(data[len(half) + 5 :])
        assert next(batches).number.tolist() == [3, 4]
        writer.close()
        assert list(batches) == []


def test_standard_input(tmp_path: Path) -> None:
    code = (
        "from rpcwire.capture.reader import read_segments; r = read_segments(['-']);"
        "print(sum(map(len, r)), r.health.files, r.progress.total)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=gzip.compress(pcap_file(packets(segments(9)), 101)),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == "9 ['standard input'] 0"


def test_nothing_captured() -> None:
    batches, health = read(pcap_file([], 1))
    assert batches == [] and health.notes == ["no packet was captured"]


@pytest.mark.parametrize("relative", [False, True])
def test_time_window(relative: bool) -> None:
    start = 0 if relative else START_NS
    data = pcap_file(packets(segments(10)), 101)
    window = {"since_ns": start + 2 * SECOND, "until_ns": start + 5 * SECOND}
    batches, health = read(data, relative=relative, **window)
    assert [s[0] for s in segments_of(batches)] == [3, 4, 5, 6]
    assert (health.packets, health.outside_window) == (10, 6)
    batches, _ = read(data, relative=relative, until_ns=start)
    assert [s[0] for s in segments_of(batches)] == [1]
    assert read(data, relative=relative, since_ns=start + 50 * SECOND)[0] == []

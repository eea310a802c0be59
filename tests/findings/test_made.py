"""Findings on conversations made for them, byte by byte."""

from __future__ import annotations

import io
import struct

import pytest

from rpcwire.diagnosis import Diagnosis, diagnose
from tests.capture.packets import START_NS, Segment, conversation, network, pcap_file
from tests.findings.lab import path

SYN, ACK, PSH, FIN = 2, 16, 8, 1
HELLO = 14
MILLISECOND = 1_000_000


class Wire:
    """One TCP connection, sent segment by segment."""

    def __init__(self, dst: int = 2, sport: int = 40000, start_ms: int = 0) -> None:
        self.segments: list[Segment] = []
        self.next = [1000, 5000]
        self.now = START_NS + start_ms * MILLISECOND
        self.dst, self.sport = dst, sport
        for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
            self._send(side, b"", flags)

    def send(self, side: int, payload: bytes, after_ms: float = 0.05) -> None:
        self.now += int(after_ms * MILLISECOND)
        self._send(side, payload, PSH | ACK)

    def close(self, side: int = 0) -> None:
        for each in (side, 1 - side):
            self.now += MILLISECOND // 20
            self._send(each, b"", FIN | ACK)
        self._send(side, b"", ACK)

    def _send(self, side: int, payload: bytes, flags: int) -> None:
        ends = (1, self.dst, self.sport, 50052)
        src, dst, sport, dport = ends if side == 0 else (ends[1], ends[0], ends[3], ends[2])
        numbers = self.next[side], self.next[1 - side]
        segment = Segment(payload, src, dst, sport, dport, *numbers, flags, time_ns=self.now)
        self.segments.append(segment)
        self.next[side] += len(payload) + bool(flags & (SYN | FIN))


def request(command: int, payload: bytes = b"") -> bytes:
    return struct.pack("<BQ", command, len(payload)) + payload


def response(payload: bytes) -> bytes:
    return struct.pack("<Q", len(payload)) + payload


def hello(wire: Wire, version: tuple[int, int, int], caps: bytes = bytes(24)) -> None:
    wire.send(0, request(HELLO, caps if version[0] >= 4 else b""))
    answer = bytes(version) + (b"\0" + caps if version[0] >= 4 else b"")
    wire.send(1, response(answer))


def written(segments: list[Segment]) -> bytes:
    """The segments in a pcap file of raw IP packets."""
    return pcap_file([(s.time_ns, network(s, 4)) for s in segments], 101)


def found(*wires: Wire) -> tuple[Diagnosis, dict[str, str]]:
    segments = sorted((s for w in wires for s in w.segments), key=lambda s: s.time_ns)
    diagnosis = diagnose(io.BytesIO(written(segments)))
    return diagnosis, {f.id: f.severity for f in diagnosis.findings}


def test_rdma_that_takes_over() -> None:
    wire = Wire()
    hello(wire, (7, 0, 0), caps=bytes([1]) + bytes(23))
    wire.now += 2_000 * MILLISECOND
    wire.close()
    _, ids = found(wire)
    assert ids["rdma-takeover"] == "warning"


def test_a_refused_major_version() -> None:
    wire = Wire()
    wire.send(0, request(HELLO, bytes(24)))
    wire.close(side=1)
    _, ids = found(wire)
    assert ids["version-mismatch"] == "warning"


def test_two_workers_of_different_versions() -> None:
    wires = []
    for i, minor in enumerate((0, 1)):
        wire = Wire(dst=2 + i, sport=40000 + i)
        hello(wire, (5, minor, 0))
        wire.send(0, request(15))
        wire.send(1, response(struct.pack("<I", 1)))
        wire.close()
        wires.append(wire)
    diagnosis, ids = found(*wires)
    assert ids["version-mismatch"] == "warning"
    title = next(f.title for f in diagnosis.findings if f.id == "version-mismatch")
    assert "5.0.0" in title
    assert "5.1.0" in title


def test_a_command_that_the_announced_version_does_not_have() -> None:
    wire = Wire()
    hello(wire, (7, 0, 0))
    wire.send(0, request(15))
    wire.send(1, response(struct.pack("<I", 1)))
    for _ in range(3):  # a fork's GRAPH_RECOMPUTE, of 16 bytes
        wire.send(0, request(16, bytes(16)))
        wire.send(0, request(15))
        wire.send(1, response(struct.pack("<I", 1)))
    wire.close()
    _, ids = found(wire)
    assert ids["dialect-disagrees-with-hello"] == "warning"


def test_a_listener_others_can_reach() -> None:
    wire = Wire()  # 10.0.0.2
    hello(wire, (7, 0, 0))
    wire.send(0, request(15))
    wire.send(1, response(struct.pack("<I", 1)))
    wire.close()
    _, ids = found(wire)
    assert ids["routable-listener"] == "warning"
    assert "version-mismatch" not in ids


def test_a_second_client_that_is_never_answered() -> None:
    first, second = Wire(sport=40000), Wire(sport=40001, start_ms=500)
    hello(first, (7, 0, 0))
    for _ in range(4):
        first.send(0, request(15), after_ms=800)
        first.send(1, response(struct.pack("<I", 1)))
    second.send(0, request(HELLO, bytes(24)))
    second.now += 10 * MILLISECOND
    second._send(1, b"", ACK)
    second.now += 2_000 * MILLISECOND
    second._send(0, b"", ACK)
    _, ids = found(first, second)
    assert ids["second-client-waiting"] == "warning"


def test_what_is_not_rpc_yields_nothing() -> None:
    diagnosis = diagnose(io.BytesIO(written(conversation())))
    assert diagnosis.findings == []
    assert diagnosis.speculation is None


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_is_still_diagnosed(keep: float) -> None:
    import gzip

    with gzip.open(path("v7.0-qwen3moe")) as file:
        data = file.read()
    diagnosis = diagnose(io.BytesIO(data[: int(keep * len(data))]))
    assert "capture-cut" in {f.id for f in diagnosis.findings}


def test_a_capture_that_begins_late() -> None:
    import gzip

    with gzip.open(path("v7.0-llama-server")) as file:
        data = file.read()
    at, skipped = 24, 0
    while skipped < 1250:
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        skipped += 1
    diagnosis = diagnose(io.BytesIO(data[:24] + data[at:]))
    found_ids = {f.id: f.severity for f in diagnosis.findings}
    assert found_ids["mid-stream-start"] == "info"


def test_a_client_that_gives_up_is_no_mismatch() -> None:
    wire = Wire()
    wire.send(0, request(HELLO, bytes(24)))
    wire.now += 3_000 * MILLISECOND
    wire._send(0, b"", 4 | ACK)
    _, ids = found(wire)
    assert "version-mismatch" not in ids

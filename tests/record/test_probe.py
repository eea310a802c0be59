"""The probe finds its way into every dialect, and leaves a busy worker alone."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from rpcwire.output.probe_text import probe_text
from rpcwire.record.addresses import HostPort, is_loopback, parse_endpoint
from rpcwire.record.matching import match_client
from rpcwire.record.probe import probe
from rpcwire.record.wire import BusyError, ProbeError

from .worker import FREE, TOTAL, Worker


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcwire.record.probe._MOST_UPLOAD", 8 << 20)


def here(worker: Worker) -> HostPort:
    return HostPort("127.0.0.1", worker.port)


@pytest.mark.parametrize(
    ("key", "protocol"),
    [("none-2", "none"), ("none-4", "none"), ("1.0.0", "1.0.0"), ("2.0.0", "2.0.0"),
     ("3.6.0", "3.6.0"), ("4.0.0", "4.0.0"), ("6.0.0", "6.0.0"), ("7.0.0", "7.0.0")],
)  # fmt: skip
def test_every_dialect(key: str, protocol: str) -> None:
    with Worker(key, devices=2) as worker:
        found = probe(here(worker), rounds=5, timeout_s=2)
    several = "DEVICE_COUNT" in {c.name for c in worker.dialect.commands.values()}
    assert found.protocol == protocol
    assert len(found.devices) == (2 if several else 1)
    assert (found.devices[0].free_bytes, found.devices[0].total_bytes) == (FREE, TOTAL)
    assert found.rtt_ms is not None
    assert found.rtt_ms.count == 5
    assert 0 < found.rtt_ms.min <= found.rtt_ms.median <= found.rtt_ms.p95 <= found.rtt_ms.max


def test_document_follows_its_schema() -> None:
    with Worker() as worker:
        found = probe(here(worker), rounds=3, throughput=True)
    text = resources.files("rpcwire.data").joinpath("schema/probe.json").read_text("utf-8")
    jsonschema.validate(json.loads(json.dumps(found.to_dict(), allow_nan=False)), json.loads(text))
    assert "--rtt" in probe_text(found)
    assert "--bandwidth" in probe_text(found)


@pytest.mark.parametrize("key", ["none-4", "2.0.0", "7.0.0"])
def test_throughput_is_bounded_and_frees_what_it_took(key: str) -> None:
    with Worker(key) as worker:
        found = probe(here(worker), rounds=1, throughput=True)
    assert found.throughput is not None
    assert found.throughput.up_mbit_s > 0 < found.throughput.down_mbit_s
    assert worker.received <= found.throughput.bytes_up * 1.01 + found.throughput.bytes_down
    assert worker.commands.count("ALLOC_BUFFER") == worker.commands.count("FREE_BUFFER") == 1


def test_no_room_is_said_not_failed() -> None:
    with Worker(room=0) as worker:
        found = probe(here(worker), rounds=1, throughput=True)
    assert found.throughput is None
    assert any("no room" in line for line in found.warnings)


def test_a_busy_worker_is_told_by_time_and_gets_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = HostPort("127.0.0.1", listener.getsockname()[1])
        began = time.monotonic()
        with pytest.raises(BusyError, match="serves another client"):
            probe(endpoint, timeout_s=0.3)
        assert time.monotonic() - began < 2
        late, _ = listener.accept()
        # What a worker does when it gets to the connection at last: it answers in two sends. After
        # an orderly close the second one would end it with SIGPIPE.
        with late, pytest.raises(ConnectionError):
            late.recv(33)
            late.send(struct.pack("<Q", 28))


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ProbeError, match="refuses"):
        probe(HostPort("127.0.0.1", port))


def test_somebody_else_there() -> None:
    class Rude(Worker):
        def _converse(self, client: socket.socket) -> None:
            client.recv(1)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with Rude() as worker, pytest.raises(ProbeError, match="does not speak ggml RPC"):
        probe(here(worker), timeout_s=1)


def client(tmp_path: Path, *, caps: bool, accepts: tuple[int, int]) -> str:
    """A program that does what llama-server does with --rpc: greets, and judges the version."""
    path = tmp_path / "client"
    path.write_text(
        f"#!{sys.executable}\n"
        "import socket, sys\n"
        "host, port = sys.argv[2].split(':')\n"
        "s = socket.create_connection((host, int(port)))\n"
        f"s.sendall(bytes([14]) + ({24 if caps else 0}).to_bytes(8, 'little') + "
        f"bytes({24 if caps else 0}))\n"
        "size = int.from_bytes(s.recv(8, socket.MSG_WAITALL), 'little')\n"
        "major, minor = s.recv(size, socket.MSG_WAITALL)[:2]\n"
        f"if major == {accepts[0]} and minor <= {accepts[1]}: s.sendall(bytes([15]) + bytes(8))\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("caps", "accepts", "version", "expected"),
    [(True, (7, 0), (7, 0, 0), True), (True, (7, 0), (7, 0, 4), True),
     (True, (5, 1), (6, 0, 0), False), (True, (5, 0), (5, 1, 0), False),
     (False, (3, 6), (3, 5, 0), True), (False, (3, 6), (4, 0, 0), False),
     (True, (7, 0), None, False)],
)  # fmt: skip
def test_a_client_is_asked_whether_it_accepts(
    tmp_path: Path,
    caps: bool,
    accepts: tuple[int, int],
    version: tuple[int, int, int] | None,
    expected: bool,
) -> None:
    assert match_client(client(tmp_path, caps=caps, accepts=accepts), version).accepts is expected


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("gpu:1234", "gpu", 1234), ("gpu", "gpu", 50052), ("[fd00::2]:7", "fd00::2", 7),
     ("fd00::2", "fd00::2", 50052), (":50053", "127.0.0.1", 50053)],
)  # fmt: skip
def test_endpoints_as_users_write_them(text: str, host: str, port: int) -> None:
    assert parse_endpoint(text) == HostPort(host, port)


def test_loopback() -> None:
    assert is_loopback(["127.0.0.1", "::1", "127.9.9.9"])
    assert not is_loopback(["127.0.0.1", "192.168.1.1"])
    assert not is_loopback(["0.0.0.0"])

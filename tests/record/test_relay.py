"""The relay passes everything on, and its record tells what both ends saw."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rpcwire.errors import UsageError
from rpcwire.record.addresses import HostPort
from rpcwire.record.probe import probe
from rpcwire.record.relay import Relay
from rpcwire.record.sockets import RelayError

from .books import books
from .worker import Worker

_RUN = "import sys; from rpcwire.cli.relay import command; command(sys.argv[1:])"


@contextmanager
def relaying(port: int, said: list[str] | None = None) -> Iterator[Relay]:
    lines: list[str] = said if said is not None else []
    relay = Relay(HostPort("127.0.0.1", 0), HostPort("127.0.0.1", port), say=lines.append)
    thread = threading.Thread(target=relay.run)
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join(5)
        assert not thread.is_alive()


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client and a server that are joined by a relay."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        relaying(listener.getsockname()[1]) as relay,
    ):
        client = socket.create_connection(("127.0.0.1", relay.address.port), 5)
        server, _ = listener.accept()
        client.settimeout(5)
        server.settimeout(5)
        with client, server:
            yield client, server


def test_bytes_both_ways_whatever_their_number() -> None:
    data = os.urandom(3_000_001)
    with pair() as (client, server):
        for a, b in ((client, server), (server, client)):
            sender = threading.Thread(target=a.sendall, args=(data,))
            sender.start()
            got = _exactly(b, len(data))
            sender.join()
            assert got == data


def _exactly(sock: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        data = sock.recv(1 << 16)
        assert data
        out += data
    return bytes(out)


def test_a_half_close_is_passed_on_and_the_other_half_stays_open() -> None:
    with pair() as (client, server):
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert _exactly(server, 8) == b"question"
        assert server.recv(1) == b""
        server.sendall(b"answer")
        assert _exactly(client, 6) == b"answer"
        server.close()
        assert client.recv(1) == b""


@pytest.mark.parametrize("side", [0, 1])
def test_a_reset_is_passed_on_as_a_reset(side: int) -> None:
    with pair() as ends:
        ends[side].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends[side].close()
        with pytest.raises(ConnectionResetError):
            ends[1 - side].recv(1)


def test_a_refused_worker_is_a_line_and_a_failure_for_the_client() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with relaying(port, said) as relay:
        address = "127.0.0.1", relay.address.port
        with (
            pytest.raises(ConnectionResetError),  # from connect already, or from recv
            socket.create_connection(address, 5) as client,
        ):
            client.recv(1)
    assert any("refused the connection" in line for line in said)


def test_a_worker_that_does_not_answer_holds_nobody_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=1) as listener,
        relaying(listener.getsockname()[1]) as relay,
    ):
        client = socket.create_connection(("127.0.0.1", relay.address.port), 5)
        server, _ = listener.accept()
        fillers = [socket.socket() for _ in range(8)]  # no more connections are taken then
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        with socket.create_connection(("127.0.0.1", relay.address.port), 5), client, server:
            time.sleep(0.1)
            began = time.monotonic()
            for _ in range(10):
                client.sendall(b"question")
                assert _exactly(server, 8) == b"question"
            assert time.monotonic() - began < 5
        for filler in fillers:
            filler.close()


def test_a_worker_that_closes_a_connection_in_use_is_a_line() -> None:
    said: list[str] = []
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        relaying(listener.getsockname()[1], said) as relay,
        socket.create_connection(("127.0.0.1", relay.address.port), 5) as client,
    ):
        listener.accept()[0].close()
        assert client.recv(1) == b""
    assert any("closed a connection in use" in line for line in said)


def test_listens_on_loopback_only_unless_told() -> None:
    target = HostPort("127.0.0.1", 1)
    with pytest.raises(UsageError, match="--allow-remote"):
        Relay(HostPort("0.0.0.0", 0), target)
    relay = Relay(HostPort("0.0.0.0", 0), target, allow_remote=True)
    with pytest.raises(RelayError, match="cannot listen"):
        Relay(HostPort("127.0.0.1", relay.address.port), target)
    relay.stop()
    relay.run()


@contextmanager
def command(port: int, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, "127.0.0.1:0", f"127.0.0.1:{port}", *arguments],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()
    try:
        yield process, int(first.split()[1].rsplit(":", 1)[1])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(20)
        process.stderr.close()


@pytest.mark.parametrize("full", [False, True])
def test_its_record_has_the_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    monkeypatch.setattr("rpcwire.record.probe._MOST_UPLOAD", 16 << 20)
    path = tmp_path / "run.pcapng"
    options = ["-o", str(path), *(["--full"] if full else [])]
    with Worker() as worker, command(worker.port, *options) as (_, port):
        found = probe(HostPort("127.0.0.1", port), rounds=20, throughput=True)
    assert found.throughput is not None
    read = books(path)
    up = sum(phase[0] for phase in read["phases"].values())
    assert up == worker.received + 9 * len(worker.commands)
    assert up == sum(s[0][0] for s in read["streams"])
    assert len(read["frames"]) == len(worker.commands) + sum(
        worker.dialect.shapes[i].answered
        for name in worker.commands
        for i in worker.dialect.shapes
        if worker.dialect.shapes[i].name == name
    )
    assert (path.stat().st_size > found.throughput.bytes_up) is full
    assert any(c.startswith("start: ") for c in read["health"].comments)


def test_a_killed_worker_leaves_a_readable_record(tmp_path: Path) -> None:
    path = tmp_path / "run.pcapng"
    with Worker() as worker, command(worker.port, "-o", str(path)) as (_, port):
        client = socket.create_connection(("127.0.0.1", port), 5)
        client.sendall(bytes([14]) + (24).to_bytes(8, "little") + bytes(24))
        _exactly(client, 36)
        client.sendall(bytes([6]) + (1 << 30).to_bytes(8, "little") + bytes(100_000))
        time.sleep(0.3)
        worker.kill()
        with pytest.raises(ConnectionError):
            for _ in range(500):
                client.sendall(bytes(10_000))
                time.sleep(0.01)
        client.close()
    read = books(path)
    assert read["streams"][0][2]
    assert read["roles"]["probe"] == (33, 36, 2)


def test_an_impossible_file_is_known_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rpcwire", "relay", "127.0.0.1:0", "127.0.0.1:1",
         "-o", str(tmp_path / "no" / "x.pcapng")],
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    if "no command 'relay'" in done.stderr:
        pytest.skip("not among the commands yet")
    assert done.returncode == 2
    assert "cannot write" in done.stderr

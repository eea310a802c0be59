"""Recordings end in a readable file and a clear message, whatever fails on the way.

The capturer is a script that hands out a bundled capture in the manner of tcpdump, so that no
rights are needed.
"""

from __future__ import annotations

import errno
import gzip
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from rpcwire.errors import CaptureError, UsageError
from rpcwire.record import capturers, files
from rpcwire.record.capture import really_lost
from rpcwire.record.capturefile import Counters
from rpcwire.record.capturers import Capturer, CapturerError, Job
from rpcwire.record.interfaces import LOOPBACK, capture_filter, interfaces_to, rpc_endpoints
from rpcwire.record.plan import Plan
from rpcwire.record.recorder import Recorder
from rpcwire.record.spool import Spool

from .books import PARTS, books

CAPTURE = Path(__file__).parents[2] / "captures" / "v7.0-output-local.pcap.gz"

_FAKE = """
import gzip, os, signal, sys, time
raw = gzip.open(sys.argv[1]).read()
if sys.argv[2] == "denied":
    print("fake: lo: You don't have permission to perform this capture", file=sys.stderr)
    sys.exit(1)
if sys.argv[2] == "gone":
    print("fake: lo: No such device exists", file=sys.stderr)
    sys.exit(1)
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
if sys.argv[2] == "slow start":
    time.sleep(30)
print("fake: listening on lo", file=sys.stderr, flush=True)
held = raw[-4096:]  # what the kernel's buffer still holds when it is told to stop
os.write(1, raw[:24])
out = raw[24 : -len(held)]
for at in range(0, len(out), 65536):
    os.write(1, out[at : at + 65536])
    if sys.argv[2] == "dies" and at > len(out) // 2:
        print("fake: The network adapter is no longer running", file=sys.stderr)
        sys.exit(1)
while not ended:
    time.sleep(0.01)
os.write(1, held)
print("100 packets captured", file=sys.stderr)
print("200 packets received by filter", file=sys.stderr)
print("6 packets dropped by kernel", file=sys.stderr)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install the script as the only capturer; the list's one element is what it does."""
    script = tmp_path / "fake.py"
    script.write_text(_FAKE)
    mode = ["works"]

    def argv(job: Job) -> list[str]:
        return [sys.executable, str(script), str(CAPTURE), mode[0]]

    one = Capturer("fake", argv, "listening on", 0.2, True, str(script))
    monkeypatch.setattr(capturers, "available", lambda: [one])
    return mode


def plan(tmp_path: Path, **more: object) -> Plan:
    return Plan(tmp_path / "run.pcapng", ("lo",), "tcp port 50052", **more)  # type: ignore[arg-type]


def interrupt(delay_s: float, number: int = signal.SIGINT) -> None:
    threading.Timer(delay_s, lambda: os.kill(os.getpid(), number)).start()


@pytest.mark.parametrize("full", [False, True])
def test_a_command_is_recorded_to_its_last_packet(
    tmp_path: Path, fake: list[str], full: bool
) -> None:
    with gzip.open(CAPTURE) as file:
        expected = books(file.read())
    job = plan(tmp_path, command=("sh", "-c", "sleep 0.5; exit 7"), full=full, argv=("rpcwire",))
    result = Recorder(job).run()
    assert (result.status, result.error, result.missing) == (7, "", 0)
    assert result.lost == (3 if sys.platform == "linux" else 6)  # the loopback counts twice
    assert result.received == result.packets + result.lost
    read = books(job.path)
    for part in PARTS:
        assert read[part] == expected[part], part
    health = read["health"]
    assert health.interfaces[0].os_dropped == result.lost
    assert health.interfaces[0].name == "lo"
    texts = " ".join(health.comments)
    for word in ("command: rpcwire", "host: ", "start: ", "interfaces: lo", "versions: rpcwire"):
        assert word in texts


def test_a_duration_ends_it(tmp_path: Path, fake: list[str]) -> None:
    began = time.monotonic()
    result = Recorder(plan(tmp_path, duration_s=0.5)).run()
    assert time.monotonic() - began < 10
    assert (result.status, result.error) == (None, "")


def test_a_command_killed_by_a_signal_has_the_status_of_the_shell(
    tmp_path: Path, fake: list[str]
) -> None:
    result = Recorder(plan(tmp_path, command=("sh", "-c", "kill -TERM $$"))).run()
    assert result.status == 128 + signal.SIGTERM


def test_no_such_command_leaves_no_file(tmp_path: Path, fake: list[str]) -> None:
    with pytest.raises(UsageError, match="cannot run no-such-program"):
        Recorder(plan(tmp_path, command=("no-such-program",))).run()
    assert not (tmp_path / "run.pcapng").exists()


@pytest.mark.parametrize("mode", ["denied", "gone"])
def test_an_earlier_recording_stays_until_there_is_another(
    tmp_path: Path, fake: list[str], mode: str
) -> None:
    fake[0] = mode
    job = plan(tmp_path)
    job.path.write_bytes(b"precious")
    with pytest.raises(CapturerError):
        Recorder(job).run()
    assert job.path.read_bytes() == b"precious"
    fake[0] = "works"
    Recorder(plan(tmp_path, duration_s=0.2)).run()
    assert books(job.path)["streams"]


@pytest.mark.parametrize("delay", [0.05, 0.4])
def test_ctrl_c_at_any_moment_leaves_a_readable_file_or_none(
    tmp_path: Path, fake: list[str], delay: float
) -> None:
    interrupt(delay)
    job = plan(tmp_path)
    try:
        result = Recorder(job).run()
    except KeyboardInterrupt:
        assert not job.path.exists()
        return
    assert result.error == ""
    books(job.path)


def test_ctrl_c_while_the_capturer_starts(tmp_path: Path, fake: list[str]) -> None:
    fake[0] = "slow start"
    interrupt(0.5)
    with pytest.raises(KeyboardInterrupt):
        Recorder(plan(tmp_path)).run()
    assert not (tmp_path / "run.pcapng").exists()


def test_sigterm_reaches_the_command(tmp_path: Path, fake: list[str]) -> None:
    interrupt(0.5, signal.SIGTERM)
    result = Recorder(plan(tmp_path, command=("sleep", "30"))).run()
    assert result.status == 128 + signal.SIGTERM


def test_a_capturer_that_dies_ends_the_record_not_the_command(
    tmp_path: Path, fake: list[str]
) -> None:
    fake[0] = "dies"
    said: list[str] = []
    job = plan(tmp_path, command=("sh", "-c", "sleep 0.4; exit 4"))
    result = Recorder(job, say=said.append).run()
    assert result.status == 4
    assert "fake ended early (The network adapter is no longer running)" in result.error
    assert said == [result.error]
    assert books(job.path)["streams"][0][2]


def test_a_full_disk_ends_the_record_not_the_command(
    tmp_path: Path, fake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, [600_000]

    def scarce(fd: int, data: bytes) -> int:
        name = os.readlink(f"/proc/self/fd/{fd}") if os.path.exists("/proc/self/fd") else ""
        if not name.endswith("run.pcapng"):
            return write(fd, data)
        size = min(len(data), room[0])
        room[0] -= size
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, bytes(data[:size]))

    monkeypatch.setattr(files.os, "write", scarce)
    said: list[str] = []
    job = plan(tmp_path, command=("sh", "-c", "sleep 0.4; exit 5"), full=True)
    result = Recorder(job, say=said.append).run()
    assert result.status == 5
    assert "No space left on device" in result.error
    assert len(said) == 1
    read = books(job.path)
    assert read["streams"][0][2]
    assert not read["health"].notes  # it ends with a whole block


def test_nothing_may_capture(tmp_path: Path, fake: list[str]) -> None:
    fake[0] = "denied"
    with pytest.raises(CapturerError, match=r"no right to capture on lo: .*rpcwire relay"):
        Recorder(plan(tmp_path)).run()
    assert not (tmp_path / "run.pcapng").exists()


def test_no_such_interface(tmp_path: Path, fake: list[str]) -> None:
    fake[0] = "gone"
    with pytest.raises(CapturerError, match=r"fake cannot capture on lo: .*No such device"):
        Recorder(plan(tmp_path)).run()


def test_an_impossible_file_is_known_before_anything_runs(tmp_path: Path, fake: list[str]) -> None:
    job = Plan(tmp_path / "no" / "run.pcapng", ("lo",), "tcp", command=("touch", "/never"))
    with pytest.raises(CaptureError, match="cannot write"):
        Recorder(job).run()


def test_a_ring_keeps_the_last_files(tmp_path: Path, fake: list[str]) -> None:
    job = plan(tmp_path, duration_s=0.5, full=True, ring=(1_000_000, 2))
    result = Recorder(job).run()
    assert [p.name for p in result.files] == sorted(p.name for p in tmp_path.glob("run_*.pcapng"))
    assert len(result.files) == 2
    assert result.files[-1].name == "run_00005.pcapng"
    for path in result.files:
        assert books(path)["health"].packets


def test_what_does_not_fit_in_memory_goes_through_a_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most=1000)
    pieces = [bytes([i]) * 300 for i in range(20)]
    for piece in pieces[:15]:
        spool.put(piece)
    assert spool.spilled > 0
    got = b""
    while len(got) < 2000:
        got += spool.get(1) or b""
    for piece in pieces[15:]:
        spool.put(piece)
    spool.close()
    while (data := spool.get(1)) is not None:
        got += data
    assert got == b"".join(pieces)
    assert spool.get() is None
    spool.abandon()


@pytest.mark.parametrize(("interface", "lost"), [("eth0", 7), ("lo", 4)])
def test_only_the_loopback_counts_twice(interface: str, lost: int) -> None:
    if sys.platform != "linux":
        lost = 7
    real = really_lost(Counters(10, None, 7), 20, Job((interface,), "tcp"))
    assert real == Counters(20 + lost, None, lost)


def test_where_a_command_line_leads() -> None:
    words = ["llama-server", "--rpc", "127.0.0.1:50052,127.0.0.1:50060", "-m", "x"]
    assert interfaces_to(rpc_endpoints(words)) == [LOOPBACK]
    assert [e.port for e in rpc_endpoints(words)] == [50052, 50060]
    assert interfaces_to(rpc_endpoints(["true"])) == [LOOPBACK]
    assert capture_filter([(1, 1), (5, 9)]) == "tcp port 1 or tcp portrange 5-9"
    assert capture_filter([]) == "tcp"

"""Recorded runs of real programs say what the programs themselves say."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .link import B
from .models import ACCEPTANCE, MODELS, model
from .rig import (
    ROOT,
    Rig,
    environment,
    free_port,
    namespaces,
    rpcwire,
    tunnel,
    within,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("dumpcap") or shutil.which("tcpdump")),
    reason="needs the right to capture",
)
#: What must agree between two records of one run.
SAME = ("phases", "roles", "requests", "commands")
TIMES = ("duration_s", "response_ms", "start_s", "prefill_s", "decode_s")


def run(command: list[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=300,
        check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def analyze(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(rpcwire("analyze", path, "--json")).stdout)
    return read


def counted(value: Any) -> Any:
    """The counts of a document, times left out."""
    if isinstance(value, dict):
        return {k: counted(v) for k, v in value.items() if k not in TIMES}
    return [counted(v) for v in value] if isinstance(value, list) else value


def drive(lab: Rig, path: Path, rpc: str, tokens: str, *more: str) -> list[str]:
    """The command that is recorded."""
    server = lab.server_command(path, rpc, free_port(), *more)
    out = str(lab.folder / "said.json")
    return [sys.executable, "-m", "tests.lab.drive", out, tokens, "--", *server]


def check_requests(lab: Rig, read: dict[str, Any]) -> None:
    said = json.loads((lab.folder / "said.json").read_text())
    assert [r["prompt_tokens"] for r in read["requests"]] == [s["prompt_n"] for s in said]
    assert [r["generated_tokens"] for r in read["requests"]] == [s["predicted_n"] for s in said]
    for request, timings in zip(read["requests"], said, strict=True):
        if "draft_n" in timings:
            assert request["draft_tokens"] == timings["draft_n"]
            assert request["accepted_tokens"] == timings["draft_n_accepted"]


@pytest.mark.parametrize("name", list(MODELS))
def test_record_says_what_the_server_says(lab: Rig, models: Path, name: str) -> None:
    port = free_port()
    lab.worker(port)
    path = lab.folder / "run.pcapng"
    how = name.removeprefix("mtp-")
    more = ["--spec-type", "draft-mtp"] if how in ACCEPTANCE else []
    command = drive(lab, model(name, models), f"127.0.0.1:{port}", "24,9", *more)
    done = run(rpcwire("record", "-o", path, "--", *command))
    read = analyze(path)
    assert read["capture"]["missing_bytes"] == read["capture"]["undecoded_bytes"] == 0, done.stderr
    check_requests(lab, read)
    assert path.stat().st_size < read["capture"]["stream_bytes"]
    if how in ACCEPTANCE:
        drafted = sum(r["draft_tokens"] for r in read["requests"])
        accepted = sum(r["accepted_tokens"] for r in read["requests"])
        assert drafted > 0
        expected = {"always": accepted == drafted, "never": accepted == 0}
        assert expected.get(how, 0 < accepted < drafted), (accepted, drafted)


def test_a_command_that_starts_at_once_is_recorded_from_its_first_packet(
    lab: Rig, models: Path
) -> None:
    if lab.peers.bench is None:
        pytest.skip("these peers have no llama-bench")
    port = free_port()
    lab.worker(port)
    path = lab.folder / "run.pcapng"
    bench = [str(lab.peers.bench), "-m", str(model("dense", models))]
    command = [*bench, "--rpc", f"127.0.0.1:{port}", "-p", "16", "-n", "4", "-r", "1"]
    run(rpcwire("record", "-o", path, "--", *command))
    read = analyze(path)
    assert read["capture"]["missing_bytes"] == read["capture"]["undecoded_bytes"] == 0
    assert {c["protocol_source"] for c in read["connections"]} == {"hello"}
    assert (16, 1) in {(r["prompt_tokens"], r["generated_tokens"]) for r in read["requests"]}


def test_slim_equals_full(lab: Rig, models: Path) -> None:
    port = free_port()
    lab.worker(port)
    whole, small = lab.folder / "full.pcapng", lab.folder / "slim.pcapng"
    command = drive(lab, model("dense", models), f"127.0.0.1:{port}", "16")
    run(rpcwire("record", "--full", "-o", whole, "--", *command))
    run(rpcwire("slim", whole, small))
    a, b = analyze(whole), analyze(small)
    for part in SAME:
        assert a[part] == b[part], part
    assert small.stat().st_size < whole.stat().st_size / 3


def test_relay_has_the_books_of_a_capture(lab: Rig, models: Path) -> None:
    port, front = free_port(), free_port()
    lab.worker(port)
    captured, relayed = lab.folder / "capture.pcapng", lab.folder / "relay.pcapng"
    relay = lab.start(rpcwire("relay", f"127.0.0.1:{front}", f"127.0.0.1:{port}", "-o", relayed))
    lab.wait_for_port(front, relay)
    command = drive(lab, model("dense", models), f"127.0.0.1:{front}", "16")
    run(rpcwire("record", "-o", captured, "-p", port, "--", *command))
    assert lab.stop(relay) == 0
    a, b = analyze(captured), analyze(relayed)
    check_requests(lab, b)
    for part in SAME:
        assert counted(a[part]) == counted(b[part]), part
    assert a["capture"]["stream_bytes"] == b["capture"]["stream_bytes"]


def test_probe_measures_the_emulated_link(lab: Rig) -> None:
    with namespaces(lab, 2.5, 200) as (near, far):
        lab.worker(50052, host=B, namespace=far)
        command = rpcwire("probe", f"{B}:50052", "--throughput", "--json", "-n", "50")
        found = json.loads(run(within(near, command)).stdout)
    assert found["protocol"].split(".")[0].isdigit()
    assert 5.0 <= found["rtt_ms"]["min"] <= found["rtt_ms"]["median"] < 7.0
    assert 5.0 <= found["rtt_ms"]["wire"] < 6.0
    assert 100 < found["throughput"]["up_mbit_s"] < 200
    assert any("without authentication" in line for line in found["warnings"])


def test_probe_leaves_a_busy_worker_alive(lab: Rig) -> None:
    port = free_port()
    worker = lab.worker(port)
    with socket.create_connection(("127.0.0.1", port)):
        done = run(rpcwire("probe", f"127.0.0.1:{port}", "--timeout", "0.5"), check=False)
        assert done.returncode == 2
        assert "serves another client" in done.stderr
    time.sleep(0.5)  # now the worker comes to the probe's connection
    assert run(rpcwire("probe", f"127.0.0.1:{port}", "-n", "3")).stdout
    assert worker.poll() is None


def test_record_over_a_link_finds_the_interface(lab: Rig, models: Path) -> None:
    path = lab.folder / "run.pcapng"
    with namespaces(lab, 1.0, 500) as (near, far):
        lab.worker(50052, host=B, namespace=far)
        command = drive(lab, model("dense", models), f"{B}:50052", "8")
        done = run(within(near, rpcwire("record", "-o", path, "--", *command)))
    assert "captures on lab-a" in done.stderr
    read = analyze(path)
    check_requests(lab, read)
    assert read["per_token"]["ms"] > 2.0  # at least a round trip each


def test_record_at_a_tunnel_end(lab: Rig, models: Path) -> None:
    port, local = free_port(), free_port()
    lab.worker(port)
    path = lab.folder / "run.pcapng"
    with tunnel(lab, local, port):
        command = drive(lab, model("dense", models), f"127.0.0.1:{local}", "8")
        run(rpcwire("record", "-o", path, "--", *command))
    read = analyze(path)
    check_requests(lab, read)
    assert all(c["server"].endswith(f":{local}") for c in read["connections"])


def test_a_killed_worker(lab: Rig, models: Path) -> None:
    port = free_port()
    worker = lab.worker(port)
    path = lab.folder / "run.pcapng"
    command = drive(lab, model("dense", models), f"127.0.0.1:{port}", "1500")
    recorder = lab.start(rpcwire("record", "-o", path, "--", *command), name="record")
    end = time.monotonic() + 60
    while time.monotonic() < end and not (path.exists() and path.stat().st_size > 500_000):
        time.sleep(0.1)
    lab.stop(worker, signal.SIGKILL)
    assert recorder.wait(60) != 0  # the command failed, and its status is passed on
    read = analyze(path)
    assert read["capture"]["stream_bytes"] > 1_000_000
    assert read["capture"]["undecoded_bytes"] < 9  # the beginning of a header, at most


def test_a_capturer_that_is_killed(lab: Rig, models: Path) -> None:
    port = free_port()
    lab.worker(port)
    path = lab.folder / "run.pcapng"
    command = drive(lab, model("dense", models), f"127.0.0.1:{port}", "1700")
    recorder = lab.start(rpcwire("record", "-o", path, "--", *command), name="record")
    end = time.monotonic() + 60
    while time.monotonic() < end and not (path.exists() and path.stat().st_size > 200_000):
        time.sleep(0.1)
    children = run(["ps", "--ppid", str(recorder.pid), "-o", "pid=,comm="]).stdout.split("\n")
    pids = [line.split()[0] for line in children if "dumpcap" in line or "tcpdump" in line]
    assert pids
    os.kill(int(pids[0]), signal.SIGKILL)
    assert recorder.wait(120) == 2  # the command went well, the record is not whole
    log = next(lab.folder.glob("*-record.log")).read_text()
    assert "ended early (killed by SIGKILL)" in log
    assert (lab.folder / "said.json").exists()
    assert analyze(path)["capture"]["stream_bytes"] > 500_000


def test_an_interface_that_vanishes(lab: Rig) -> None:
    path = lab.folder / "run.pcapng"
    device = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"rpcw0", 0x1001))  # as in link.py
        run(["ip", "link", "set", "rpcw0", "up"])
        recorder = lab.start(rpcwire("record", "-o", path, "-i", "rpcw0"), name="record")
        time.sleep(3)
    finally:
        os.close(device)
    assert recorder.wait(30) == 2
    assert "ended early" in next(lab.folder.glob("*-record.log")).read_text()
    run(["capinfos", str(path)] if shutil.which("capinfos") else ["true"])


def test_a_full_disk(lab: Rig, models: Path) -> None:
    port = free_port()
    lab.worker(port)
    disk = lab.folder / "disk"
    disk.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)])
    try:
        command = drive(lab, model("dense", models), f"127.0.0.1:{port}", "16")
        path = disk / "run.pcapng"
        done = run(rpcwire("record", "--full", "-o", path, "--", *command), check=False)
        assert done.returncode == 2
        assert "No space left on device" in done.stderr
        assert (lab.folder / "said.json").exists()
        assert analyze(path)["capture"]["stream_bytes"] > 500_000
    finally:
        run(["umount", str(disk)])

"""Runs of real programs: workers, llama-server, a link, a tunnel; all of it ends with the block."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .link import B
from .peers import Peers

ROOT = Path(__file__).parents[2]
_READY_S = 120.0


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def within(namespace: str, command: Sequence[str]) -> list[str]:
    """A command line that runs in a network namespace ("": here)."""
    return ["ip", "netns", "exec", namespace, *command] if namespace else list(command)


def rpcwire(*arguments: str | Path) -> list[str]:
    """rpcwire's command line, from this checkout."""
    return [sys.executable, "-m", "rpcwire", *map(str, arguments)]


def environment() -> dict[str, str]:
    """With this checkout's rpcwire."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


@dataclass
class Rig:
    """What runs in a test.

    Attributes:
        peers: the programs. folder: for logs and captures.
    """

    peers: Peers
    folder: Path
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _logs: int = 0

    def start(self, command: Sequence[str], *, name: str = "") -> subprocess.Popen[bytes]:
        """Start a program, its output in a log; it ends with the rig."""
        self._logs += 1
        log = self.folder / f"{self._logs:02}-{name or Path(command[0]).name}.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment()
            )
        self._processes.append(process)
        return process

    def worker(self, port: int, *, host: str = "127.0.0.1", namespace: str = "") -> Any:
        """Start a worker and wait until it listens; without connecting, that would be recorded."""
        command = [str(self.peers.worker), "-H", host, "-p", str(port)]
        process = self.start(within(namespace, command))
        self.wait_for_port(port, process, namespace)
        return process

    def wait_for_port(
        self, port: int, process: subprocess.Popen[bytes], namespace: str = ""
    ) -> None:
        """Wait until somebody listens at a port."""
        for _ in range(300):
            found = subprocess.run(
                within(namespace, ["ss", "-ltnH", f"sport = :{port}"]),
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            if found.stdout.strip():
                return
            assert process.poll() is None, "it has ended"
            time.sleep(0.05)
        raise AssertionError(f"nobody listens at {port}")

    def server_command(self, model: Path, rpc: str, port: int, *more: str) -> list[str]:
        """llama-server's command line: everything on the workers."""
        return [
            str(self.peers.server), "-m", str(model), "--rpc", rpc, "--host", "127.0.0.1",
            "--port", str(port), "-t", "1", "-ngl", "99", "-c", "2048", "--no-warmup", *more,
        ]  # fmt: skip

    def stop(self, process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> int:
        """End a program and wait for it."""
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def end(self) -> None:
        """End everything."""
        for process in reversed(self._processes):
            self.stop(process, signal.SIGTERM)


@contextmanager
def rig(peers: Peers, folder: Path) -> Iterator[Rig]:
    """A rig that ends everything it started."""
    one = Rig(peers, folder)
    try:
        yield one
    finally:
        one.end()


@contextmanager
def namespaces(one: Rig, delay_ms: float, rate_mbit: float) -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by a link; the second one has the address link.B."""
    names = (f"rpcwire-a{os.getpid()}", f"rpcwire-b{os.getpid()}")
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        arguments = ["-m", "tests.lab.link", *names, str(delay_ms), str(rate_mbit)]
        link = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, cwd=ROOT, env=environment()
        )
        one._processes.append(link)
        assert link.stdout is not None
        assert link.stdout.readline() == b"up\n"
        link.stdout.close()
        yield names
    finally:
        one.end()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextmanager
def tunnel(one: Rig, local: int, remote: int) -> Iterator[None]:
    """An SSH tunnel from one loopback port to another, through a server of its own."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    assert sshd is not None
    folder = one.folder / "ssh"
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True
        )
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = free_port()
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nAllowTcpForwarding yes\n"
    )
    os.makedirs("/run/sshd", exist_ok=True)
    daemon = one.start([sshd, "-D", "-e", "-f", str(folder / "config")])
    one.wait_for_port(port, daemon)
    user = (
        os.environ.get("USER")
        or subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    )
    client = one.start([
        "ssh", "-N", "-p", str(port), "-i", str(folder / "user"),
        "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/known",
        "-o", "IdentitiesOnly=yes", "-L", f"127.0.0.1:{local}:127.0.0.1:{remote}",
        f"{user}@127.0.0.1",
    ])  # fmt: skip
    one.wait_for_port(local, client)
    yield


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until llama-server has loaded its model."""
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        assert process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("llama-server does not get ready")


def complete(port: int, prompt: str, tokens: int) -> dict[str, Any]:
    """One completion; what llama-server says of it (`timings`)."""
    body = json.dumps(
        {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True}
    ).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        timings: dict[str, Any] = json.load(answer)["timings"]
    return timings


__all__ = ["B", "Rig", "complete", "free_port", "namespaces", "rig", "rpcwire", "tunnel"]

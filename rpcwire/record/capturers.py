"""Programs that capture: which there are, and how each is started."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from rpcwire.errors import RpcwireError

#: Kernel buffer: a load over loopback comes at several GB/s.
BUFFER_MIB = 256
_MOST_QUEUED = (1 << 31) - 1


class CapturerError(RpcwireError):
    """Nothing can capture here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to capture: interface names, a BPF filter, MiB of kernel buffer."""

    interfaces: tuple[str, ...]
    filter: str
    buffer_mib: int = BUFFER_MIB


@dataclass(frozen=True, slots=True)
class Capturer:
    """One program.

    Attributes:
        name: as users know it.
        argv: its command line for a job; a capture comes out on its standard output.
        on: what it writes on standard error when it captures.
        settle_s: longest time that it leaves packets in the kernel.
        several: whether it takes several interfaces.
        program: path, "" when it is not installed.
    """

    name: str
    argv: Callable[[Job], list[str]]
    on: str
    settle_s: float
    several: bool
    program: str


def available() -> list[Capturer]:
    """What is installed, best first: small privileged parts that most people have."""
    found = [_dumpcap(), _tcpdump(), _scapy()]
    return [c for c in found if c.program]


def _dumpcap() -> Capturer:
    program = shutil.which("dumpcap") or ""

    def argv(job: Job) -> list[str]:
        out = [program, "-q", "-B", str(job.buffer_mib)]
        if len(job.interfaces) > 1:
            # Then its threads pass packets on through a queue, of 1 MB unless told otherwise.
            out += ["-C", str(min(job.buffer_mib << 20, _MOST_QUEUED))]
        for name in job.interfaces:
            out += ["-i", name, "-f", job.filter, "-p"]
        return [*out, "-w", "-"]

    return Capturer("dumpcap", argv, "File: -", 0.6, True, program)


def _tcpdump() -> Capturer:
    program = shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin") or ""

    def argv(job: Job) -> list[str]:
        name = job.interfaces[0] if len(job.interfaces) == 1 else "any"
        precise = ["--time-stamp-precision=nano"] if sys.platform == "linux" else []
        size = ["-B", str(job.buffer_mib << 10)]
        return [program, "-i", name, "-n", "-p", "-U", *size, *precise, "-w", "-", job.filter]

    return Capturer("tcpdump", argv, "listening on", 1.3, sys.platform == "linux", program)


def _scapy() -> Capturer:
    found = importlib.util.find_spec("scapy") is not None

    def argv(job: Job) -> list[str]:
        return [sys.executable, "-m", "rpcwire.record.sniff", job.filter, *job.interfaces]

    return Capturer("scapy", argv, "sniffing on", 0.3, False, sys.executable if found else "")

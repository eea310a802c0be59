"""What is to be recorded, and how that went."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rpcwire.record.capturers import BUFFER_MIB


@dataclass(frozen=True, slots=True)
class Plan:
    """What to record.

    Attributes:
        path: the pcapng file.
        interfaces, filter: where, and what of it (BPF).
        full: keep tensor contents.
        duration_s: end after this time; None: when the command ends, or at Ctrl-C.
        command: program and arguments to run, () for none.
        ring: (bytes of a file, files kept), or None for one file.
        buffer_mib: of the kernel.
        argv: rpcwire's own command line, for the comments.
    """

    path: Path
    interfaces: tuple[str, ...]
    filter: str
    full: bool = False
    duration_s: float | None = None
    command: tuple[str, ...] = ()
    ring: tuple[int, int] | None = None
    buffer_mib: int = BUFFER_MIB
    argv: tuple[str, ...] = ()


@dataclass(slots=True)
class Recorded:
    """How a recording went.

    Attributes:
        files: what was written.
        status: exit status of the command, None without one.
        error: why the record is not complete, "" when it is.
        notes: what the user should know.
        received, lost: packets that the kernel saw, and those that it had no room for; None
            when nobody counted.
        missing: stream bytes proved to have been sent, but not captured.
        packets: captured. spilled: bytes that had to wait on disk.
    """

    files: list[Path] = field(default_factory=list)
    status: int | None = None
    error: str = ""
    notes: list[str] = field(default_factory=list)
    received: int | None = None
    lost: int | None = None
    missing: int = 0
    packets: int = 0
    spilled: int = 0

"""What a recording says of itself: who, where, with what, when."""

from __future__ import annotations

import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rpcwire import __version__

_VERSION_S = 5.0


@dataclass(frozen=True, slots=True)
class About:
    """What a section says of itself: comments, hardware, operating system."""

    comments: Sequence[str] = ()
    hardware: str = ""
    os: str = ""


def describe(
    argv: Sequence[str],
    *,
    interfaces: Sequence[str] = (),
    capturer: str = "",
    command: Sequence[str] = (),
) -> About:
    """Comments for the start of a recording.

    Args:
        argv: rpcwire's own command line.
        interfaces: where is captured.
        capturer: program and version that captures.
        command: the command that is recorded; its program is asked for its version.
    """
    comments = [
        "command: " + shlex.join(argv),
        f"host: {socket.gethostname()}",
        f"start: {timestamp()}",
    ]
    if interfaces:
        comments.append("interfaces: " + ", ".join(interfaces))
    if capturer:
        comments.append(f"capturer: {capturer}")
    if command and (version := program_version(command[0])):
        comments.append(f"program: {version}")
    versions = f"rpcwire {__version__}, Python {platform.python_version()}"
    comments.append(f"versions: {versions}")
    return About(comments, platform.machine(), platform.platform())


def timestamp() -> str:
    """Now, with the zone."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def program_version(program: str) -> str:
    """The first line that tells the version of a llama.cpp program, or "" where none does."""
    if "llama" not in program and "ggml" not in program:
        return ""  # any other program might do who knows what when asked
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=False,
            stdin=subprocess.DEVNULL,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in lines if "version" in line.lower()), "")[:200]


def own_command() -> list[str]:
    """Rpcwire's command line as it was typed."""
    return ["rpcwire", *sys.argv[1:]]

"""What this machine offers to capture with, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass

from rpcwire import __version__
from rpcwire.record.advice import RELAY, has_group, package_command
from rpcwire.record.capturers import Capturer, available
from rpcwire.wireshark import FILE_NAME, dissector
from rpcwire.wireshark.folders import plugin_folder

_LONGEST_S = 20.0
#: distribution -> what it is for; extras of the same name install them.
_PARTS = {
    "pandas": "data frames (read_frames, read_passes)",
    "pyarrow": "Parquet files (frames --parquet)",
    "resvg-py": "figures as PNG (--plot out.png)",
    "scapy": "packets to craft (rpcwire.scapy)",
    "zstandard": "captures in .zst files",
}
_EXTRAS = {"pyarrow": "parquet", "resvg-py": "plot", "zstandard": "zstd"}
_BUILT_IN_ZSTD = (3, 14)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what. good: whether it works here.
        found: what there is, in a line.
        fix: a line that mends it, "" where nothing has to be.
    """

    name: str
    good: bool
    found: str
    fix: str = ""


def examine() -> list[Check]:
    """All checks; takes a second or so, changes nothing."""
    return [
        Check("rpcwire", True, __version__),
        Check("Python", True, f"{platform.python_version()} on {platform.platform()}"),
        *_capturing(),
        Check("relay", True, "rpcwire relay records without rights"),
        *_wireshark(),
        *(_part(name, use) for name, use in _PARTS.items()),
    ]


def _said(*argv: str) -> tuple[int, str]:
    """Exit status and output of a program; (-1, "") where it cannot be run."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return -1, ""
    return done.returncode, done.stdout + done.stderr


def _version(text: str) -> str:
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found[0] if found else "version unknown"


def _capturing() -> list[Check]:
    programs = [c for c in available() if c.name != "scapy"]
    if not programs:
        fix = f"{package_command()}; {RELAY}"
        return [Check("capture", False, "neither dumpcap nor tcpdump is installed", fix)]
    return [_capturer(program) for program in programs]


def _capturer(capturer: Capturer) -> Check:
    version = _version(_said(capturer.program, "--version")[1])
    status, text = _said(capturer.program, "-D")
    interfaces = re.findall(r"(?m)^\d+\.\s*(\S+)", text) if status == 0 else []
    if interfaces and _may_open():
        shown = ", ".join(interfaces[:6]) + (", ..." if len(interfaces) > 6 else "")
        return Check(capturer.name, True, f"{version}, may capture on {shown}")
    if interfaces and _privileged(capturer.program):
        # It lists interfaces only to those whom it lets capture, as its rights are its own.
        return Check(capturer.name, True, f"{version}, may capture on {', '.join(interfaces[:6])}")
    return Check(capturer.name, False, f"{version}, no right to capture", _rights(capturer))


def _privileged(program: str) -> bool:
    """Whether a program has rights of its own (set-user-ID, or Linux's file capabilities)."""
    try:
        if os.stat(program).st_mode & stat.S_ISUID:
            return True
        return bool(getattr(os, "getxattr", lambda *_: b"")(program, "security.capability"))
    except OSError:
        return False


def _may_open() -> bool:
    """Whether this process itself has the right to capture (Linux: CAP_NET_RAW)."""
    if sys.platform == "linux":
        try:
            with open("/proc/self/status", encoding="ascii") as status:
                held = next(int(x.split()[1], 16) for x in status if x.startswith("CapEff"))
        except (OSError, StopIteration, ValueError):
            return False
        return bool(held >> 13 & 1)
    geteuid = getattr(os, "geteuid", None)
    if sys.platform == "darwin" and os.access("/dev/bpf0", os.R_OK):
        return True
    return geteuid is not None and geteuid() == 0


def _rights(capturer: Capturer) -> str:
    if sys.platform == "darwin":
        return f"install ChmodBPF from the Wireshark package and log in again; {RELAY}"
    if capturer.name == "dumpcap" and has_group("wireshark"):
        return f"sudo usermod -aG wireshark $USER, and log in again; {RELAY}"
    return f"run rpcwire record with sudo; {RELAY}"


def _wireshark() -> list[Check]:
    tshark = shutil.which("tshark") or shutil.which("wireshark")
    if tshark is None:
        return [Check("Wireshark", False, "not installed (only needed to look at packets)")]
    _, text = _said(tshark, "--version")
    lua = re.search(r"with Lua[ \d.]*", text)
    checks = [
        Check("Wireshark", lua is not None, f"{_version(text)}, {lua[0] if lua else 'without Lua'}")
    ]
    path = plugin_folder() / FILE_NAME
    install = "rpcwire wireshark --install"
    try:
        current = path.read_text("utf-8") == dissector(__version__)
    except (OSError, UnicodeDecodeError):
        checks.append(Check("dissector", False, "not installed", install))
    else:
        found = str(path) if current else f"{path} is of another version of rpcwire"
        checks.append(Check("dissector", current, found, "" if current else install))
    return checks


def _part(name: str, use: str) -> Check:
    if name == "zstandard" and sys.version_info >= _BUILT_IN_ZSTD:
        return Check("zstd", True, f"part of Python; {use}")
    try:
        return Check(name, True, f"{importlib.metadata.version(name)}; {use}")
    except importlib.metadata.PackageNotFoundError:
        extra = _EXTRAS.get(name, name)
        return Check(name, False, f"not installed; {use}", f"pip install 'rpcwire[{extra}]'")

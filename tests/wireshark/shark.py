"""Runs the real tshark with the dissector and reads what it shows."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, iterparse

import pytest

from rpcwire.wireshark import FILE_NAME, dissector

TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed")


@dataclass
class Shown:
    """One message as tshark shows it: values by field name, each at its first occurrence."""

    fields: dict[str, str] = field(default_factory=dict)
    every: dict[str, list[str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    @property
    def key(self) -> tuple[int, str, str, int]:
        """Packet of the first byte, direction, command, length."""
        return int(self["first_frame"]), self["direction"], self["cmd"], int(self["length"])


def script(folder: Path) -> Path:
    """The dissector as a file."""
    path = folder / FILE_NAME
    path.write_text(dissector("test"), "utf-8")
    return path


def run(lua: Path, capture: str | Path, *arguments: str) -> str:
    """What tshark prints with the dissector loaded; fails on any error of the Lua code."""
    done = subprocess.run(
        [str(TSHARK), "-X", f"lua_script:{lua}", "-r", str(capture), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        timeout=120,
    )
    assert "Lua" not in done.stderr, done.stderr
    assert "Lua Error" not in done.stdout
    return done.stdout


def messages(lua: Path, capture: str | Path, *arguments: str) -> list[Shown]:
    """Messages in the order in which tshark shows them."""
    command = [str(TSHARK), "-X", f"lua_script:{lua}", "-r", str(capture)]
    command += ["-T", "pdml", "-J", "ggml_rpc", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        found = [s for packet in _packets(process.stdout) for s in _shown(packet)]
    assert process.returncode == 0
    return found


def _packets(stream: IO[bytes]) -> Iterator[Element]:
    for _, element in iterparse(stream):
        if element.tag == "packet":
            yield element
            element.clear()


def _shown(packet: Element) -> Iterator[Shown]:
    for proto in packet.iter("proto"):
        if proto.get("name") != "ggml_rpc":
            continue
        shown = Shown()
        for item in proto.iter("field"):
            name = item.get("name", "")
            assert "Lua Error" not in item.get("showname", ""), item.get("showname")
            if name.startswith("ggml_rpc."):
                name = name.removeprefix("ggml_rpc.")
                shown.fields.setdefault(name, item.get("show", ""))
                shown.every.setdefault(name, []).append(item.get("show", ""))
        if "cmd" in shown.fields:
            yield shown


def counted(shown: list[Shown]) -> Counter[tuple[int, str, str, int]]:
    """How often each message is shown."""
    return Counter(s.key for s in shown)

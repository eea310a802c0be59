"""Where Wireshark looks for Lua plugins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_PERSONAL = "Personal Lua Plugins"


def from_listing(text: str) -> Path | None:
    """The folder that the output of `tshark -G folders` names for personal Lua plugins."""
    for line in text.splitlines():
        name, _, folder = line.partition(":")
        if name.strip() == _PERSONAL and folder.strip():
            return Path(folder.strip())
    return None


def plugin_folder() -> Path:
    """The folder for personal Lua plugins: as tshark tells, else where Wireshark has it."""
    tshark = shutil.which("tshark")
    if tshark is not None:
        try:
            done = subprocess.run(
                [tshark, "-G", "folders"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.SubprocessError):
            pass
        else:
            told = from_listing(done.stdout)
            if told is not None:
                return told
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", str(Path.home()))) / "Wireshark" / "plugins"
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"

"""What to do where nothing may capture, in a line."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection

RELAY = "or use 'rpcwire relay', which needs no rights"


def nothing_installed() -> str:
    """No program that captures is there."""
    install = "brew install wireshark" if sys.platform == "darwin" else package_command()
    return f"nothing here can capture: install dumpcap or tcpdump ({install}), {RELAY}"


def no_right(interfaces: Collection[str], capturers: Collection[str]) -> str:
    """None of the installed programs may capture.

    Args:
        interfaces: where.
        capturers: names of the programs.
    """
    if sys.platform == "darwin":
        how = (
            "install ChmodBPF from the Wireshark package and log in again"
            if "dumpcap" in capturers
            else "run it with sudo, or install ChmodBPF from the Wireshark package"
        )
    elif "dumpcap" in capturers and has_group("wireshark"):
        how = "run 'sudo usermod -aG wireshark $USER' and log in again"
    elif "dumpcap" in capturers and os.path.exists("/usr/sbin/dpkg-reconfigure"):
        how = (
            "run 'sudo dpkg-reconfigure wireshark-common' (answer yes), then "
            "'sudo usermod -aG wireshark $USER', and log in again"
        )
    else:
        how = "run it with sudo"
    return f"no right to capture on {', '.join(interfaces)}: {how}; {RELAY}"


def package_command() -> str:
    """What installs a capturer on this system."""
    for tool, words in (
        ("apt-get", "sudo apt-get install tcpdump"),
        ("dnf", "sudo dnf install tcpdump"),
        ("pacman", "sudo pacman -S tcpdump"),
        ("zypper", "sudo zypper install tcpdump"),
        ("apk", "sudo apk add tcpdump"),
    ):
        if shutil.which(tool):
            return words
    return "with the system's package manager"


def has_group(name: str) -> bool:
    """Whether this system has a group of that name."""
    try:
        import grp

        grp.getgrnam(name)
    except (ImportError, KeyError):
        return False
    return True

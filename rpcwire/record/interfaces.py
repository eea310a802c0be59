"""Which interface the traffic of a command passes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

from rpcwire.errors import UsageError
from rpcwire.record.addresses import HostPort, parse_endpoint, resolve

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
_LOOPBACK = re.compile(r"^(lo\d*|loopback.*)$", re.IGNORECASE)
_FLAGS = ("--rpc", "-rpc")
_ROUTE = {
    "linux": (["ip", "-o", "route", "get"], re.compile(r"\bdev (\S+)")),
    "darwin": (["route", "-n", "get"], re.compile(r"interface: (\S+)")),
}


def rpc_endpoints(command: Sequence[str]) -> list[HostPort]:
    """The workers that a llama.cpp command line names with --rpc."""
    return [parse_endpoint(text) for value in _values(command) for text in value.split(",") if text]


def _values(command: Sequence[str]) -> Iterator[str]:
    for i, word in enumerate(command):
        if word in _FLAGS and i + 1 < len(command):
            yield command[i + 1]
        elif word.startswith("--rpc="):
            yield word.removeprefix("--rpc=")


def interfaces_to(endpoints: Sequence[HostPort]) -> list[str]:
    """The interfaces through which hosts are reached; the loopback when there is none.

    Raises:
        UsageError: a host is not known.
    """
    found: dict[str, None] = {}
    for endpoint in endpoints:
        for address in resolve(endpoint)[:1]:
            found[_interface_to(address)] = None
    return list(found) or [LOOPBACK]


def _interface_to(address: str) -> str:
    argv, pattern = _ROUTE.get(sys.platform, ([], re.compile("")))
    if not argv or not shutil.which(argv[0], path=None):
        return LOOPBACK if address.startswith("127.") or address == "::1" else "any"
    done = subprocess.run([*argv, address], capture_output=True, text=True, check=False)
    match = pattern.search(done.stdout)
    if match is None:
        raise UsageError(f"there is no route to {address}; name the interface with -i")
    return match[1]


def capture_filter(ports: Sequence[tuple[int, int]]) -> str:
    """The BPF filter for TCP connections with one of these port ranges on either end.

    Args:
        ports: (first, last) of each range; none: all.
    """
    # Not "inbound", which would take Linux's loopback once: libpcap filters the first blocks
    # itself, cannot tell directions there, and drops all that is in them.
    parts = [f"tcp port {a}" if a == b else f"tcp portrange {a}-{b}" for a, b in ports]
    return " or ".join(parts) or "tcp"


def is_loopback_name(interface: str) -> bool:
    """Whether an interface is the loopback, by its name."""
    return bool(_LOOPBACK.match(interface))


def counts_twice(interfaces: Sequence[str]) -> bool:
    """Whether the kernel counts each packet twice, going out and coming in: Linux's loopback."""
    return sys.platform == "linux" and all(map(is_loopback_name, interfaces))

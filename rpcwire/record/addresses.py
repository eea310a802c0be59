"""HOST:PORT as users write it."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any, NamedTuple

from rpcwire.errors import UsageError
from rpcwire.ggml.versions import DEFAULT_PORT

_ENDPOINT = re.compile(r"^(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\s]*))(?::(?P<port>\d{1,5}))?$")
_ANY = "0.0.0.0"
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host, as a name or an address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Destination(NamedTuple):
    """What a host's name stands for: address family, and what sockets are given to connect."""

    family: int
    socket: tuple[Any, ...]


def parse_endpoint(text: str, *, default_host: str = "127.0.0.1") -> HostPort:
    """Read `host:port`, `[v6]:port`, `host` (port 50052) or `:port`.

    Raises:
        UsageError: it is none of these.
    """
    match = _ENDPOINT.match(text.strip())
    bare = text.strip()
    if match is None:
        try:  # an IPv6 address without brackets
            return HostPort(str(ipaddress.IPv6Address(bare)), DEFAULT_PORT)
        except ValueError:
            match = None
    if match is None:
        raise UsageError(f"{text!r} is no HOST:PORT; write 10.0.0.2:50052 or [fd00::2]:50052")
    host = match["six"] or match["host"] or default_host
    port = int(match["port"]) if match["port"] else DEFAULT_PORT
    if port > _LAST_PORT:
        raise UsageError(f"{text!r}: ports end at {_LAST_PORT}")
    return HostPort(host, port)


def destinations(endpoint: HostPort) -> list[Destination]:
    """Where a host can be reached, best first.

    Raises:
        UsageError: there is none.
    """
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot find the host {endpoint.host}: {reason}") from error
    return list(dict.fromkeys(Destination(entry[0], entry[4]) for entry in found))


def resolve(endpoint: HostPort) -> list[str]:
    """Addresses of a host.

    Raises:
        UsageError: there is none.
    """
    return list(dict.fromkeys(str(d.socket[0]).split("%")[0] for d in destinations(endpoint)))


def is_loopback(addresses: list[str]) -> bool:
    """Whether all of the addresses can be reached from this machine only."""
    return all(ipaddress.ip_address(a).is_loopback for a in addresses)

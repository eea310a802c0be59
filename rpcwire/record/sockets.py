"""Sockets as the relay and the probe need them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys

from rpcwire.errors import RpcwireError
from rpcwire.record.addresses import Destination, HostPort

_BACKLOG = 128
#: Where Linux has tcpi_min_rtt (us) in struct tcp_info.
_MIN_RTT_AT = 148
_LINGER_OFF = struct.pack("ii", 1, 0)
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class RelayError(RpcwireError):
    """The relay cannot start."""


def open_listener(address: str, asked: HostPort) -> socket.socket:
    """Listen at an address.

    Args:
        address: where.
        asked: the same as the user wrote it, with the port.

    Raises:
        RelayError: that is not possible.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, asked.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise RelayError(
            f"cannot listen on {asked}: {error.strerror}; choose another port, or end what uses it"
        ) from error
    listener.setblocking(False)
    return listener


def dial(address: Destination) -> socket.socket:
    """Begin to connect; the socket is writable when it is known how that went.

    Raises:
        OSError: it failed at once.
    """
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    sock.setblocking(False)
    number = sock.connect_ex(address.socket)
    if number not in _UNDER_WAY:
        sock.close()
        raise OSError(number, os.strerror(number))
    return sock


def outcome(sock: socket.socket) -> OSError | None:
    """How a connection that was begun went; None: well."""
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(number, os.strerror(number)) if number else None


def break_off(sock: socket.socket) -> None:
    """Close with a reset instead of an orderly end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
    sock.close()


def min_rtt_us(sock: socket.socket) -> int | None:
    """The smallest round-trip time that the kernel saw on a connection, in us; None: no telling."""
    if sys.platform != "linux":
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT_AT + 4)
    except OSError:
        return None
    if len(info) < _MIN_RTT_AT + 4:
        return None
    value: int = struct.unpack_from("I", info, _MIN_RTT_AT)[0]
    return value if 0 < value < 0xFFFFFFFF else None

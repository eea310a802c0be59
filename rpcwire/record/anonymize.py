"""Addresses replaced by others of the same kind, the same one everywhere by the same."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.ggml.tensor import NAME_SIZE, TensorLayout
from rpcwire.ggml.versions import REQUEST_HEADER, RESPONSE_HEADER
from rpcwire.record.headers import set_ip_checksum

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

Address = IPv4Address | IPv6Address
#: Kind -> first address to give: private (RFC 1918, ULA) stays private, others become those that
#: documentation uses (RFC 5737, RFC 3849).
_POOLS: dict[tuple[int, bool], int] = {
    (4, True): int(IPv4Address("10.0.0.1")),
    (4, False): int(IPv4Address("203.0.113.1")),
    (6, True): int(IPv6Address("fd00::1")),
    (6, False): int(IPv6Address("2001:db8::1")),
}
_ENDPOINT = re.compile(rb"(RPC\d*\[)(.+?)(:\d+\])")
#: Bytes that precede the network header and name hardware or processes, by link type.
_HARDWARE: dict[int, list[tuple[int, int | None]]] = {
    1: [(0, 12)],
    113: [(6, 14)],
    276: [(12, 20)],
    149: [(12, None)],
    258: [(12, None)],
}
_OFFER = 24


class Anonymizer:
    """Keeps the table of replacements. Loopback and unspecified addresses stay as they are."""

    def __init__(self) -> None:
        self._given: dict[Address, Address] = {}
        self._hosts: dict[str, bytes] = {}
        self._next = dict(_POOLS)

    def address(self, address: Address) -> Address:
        """The replacement of an address."""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            inner = self.address(address.ipv4_mapped)
            return IPv6Address((0xFFFF << 32) | int(inner))
        if address.is_loopback or address.is_unspecified:
            return address
        found = self._given.get(address)
        if found is None:
            kind = address.version, not address.is_global
            number, self._next[kind] = self._next[kind], self._next[kind] + 1
            found = self._given[address] = (
                IPv4Address(number) if address.version == 4 else IPv6Address(number)
            )
        return found

    def host(self, name: str) -> bytes:
        """The replacement of a host as users write it: an address or a name."""
        try:
            return str(self.address(ip_address(name.strip("[]")))).encode()
        except ValueError:
            return self._hosts.setdefault(name, b"worker%d" % (len(self._hosts) + 1))

    def packet(self, data: bytes, link: int, ip: int) -> bytes:
        """A packet with its hardware and IP addresses replaced.

        Args:
            data: from the link header on.
            link: LINKTYPE.
            ip: where the IP header begins, -1 for none: then nothing but the link header stays.
        """
        out = bytearray(data)
        for first, last in _HARDWARE.get(link, ()):
            stop = min(len(out) if last is None else last, ip if ip >= 0 else len(out))
            out[first:stop] = bytes(max(stop - first, 0))
        if ip < 0:
            return bytes(out)
        four = out[ip] >> 4 == 4
        width, at = (4, ip + 12) if four else (16, ip + 8)
        for start in (at, at + width):
            if start + width > len(out):
                break
            raw = bytes(out[start : start + width])
            out[start : start + width] = self.address(
                IPv4Address(raw) if four else IPv6Address(raw)
            ).packed
        if four and len(out) >= ip + 20:
            set_ip_checksum(out, ip)
        return bytes(out)

    def names(self, frame: Frame) -> dict[int, bytes]:
        """What has to be replaced in a frame: stream offset -> bytes.

        Tensor names hold the worker's address (`RPC0[host:port]#...`); capabilities in HELLO hold
        hardware addresses.
        """
        out: dict[int, bytes] = {}
        header = REQUEST_HEADER if frame.direction == UP else RESPONSE_HEADER
        payload = frame.offset + header
        if frame.command == "HELLO":
            at = 0 if frame.direction == UP else 4
            offer = frame.head[at : at + _OFFER]
            if len(offer) == _OFFER and any(offer):
                out[payload + at] = b"\1" * _OFFER
            return out
        if frame.command == "SET_TENSOR_HASH" and frame.direction == UP:
            out[payload + frame.size - header - 8] = bytes(8)
        layout = frame.connection.layout.layout
        if frame.graph is not None:
            graph = frame.graph
            base = payload + len(graph.raw) - layout.size * len(graph.tensors)
            for k, name in enumerate(graph.tensors["name"].tolist()):
                if b"[" in name:
                    self._name(out, name, base + k * layout.size, layout)
        elif frame.direction == UP:
            for at in _records(frame, layout):
                name = frame.head[at + layout.at["name"] :][:NAME_SIZE]
                self._name(out, name, payload + at, layout)
        return out

    def _name(self, out: dict[int, bytes], name: bytes, record: int, layout: TensorLayout) -> None:
        new = _ENDPOINT.sub(lambda m: m[1] + self.host(m[2].decode("latin-1")) + m[3], name)
        new = new.rstrip(b"\0")
        if new != name.rstrip(b"\0"):
            out[record + layout.at["name"]] = new[: NAME_SIZE - 1].ljust(NAME_SIZE, b"\0")


def _records(frame: Frame, layout: TensorLayout) -> list[int]:
    """Where in the kept front of a request's payload its tensor records are."""
    for shape in frame.connection.layout.shapes.values():
        if shape.name == frame.command and shape.tensor_at >= 0:
            return list(range(shape.tensor_at, len(frame.head), layout.size))
    return []

"""Packet headers, rewritten for other stretches of the stream than the packet had."""

from __future__ import annotations

import struct
from dataclasses import dataclass

FIN, SYN, RST, PSH = 0x01, 0x02, 0x04, 0x08
_MOST_IP = 0xFFFF
_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Header:
    """Link, IP and TCP header of a packet.

    Attributes:
        raw: the bytes, up to the first one of the payload.
        ip, tcp: where the IP and the TCP header begin in them.
    """

    raw: bytes
    ip: int
    tcp: int

    @property
    def seq(self) -> int:
        """Sequence number of the first payload byte."""
        seq = int.from_bytes(self.raw[self.tcp + 4 : self.tcp + 8], "big")
        return (seq + bool(self.raw[self.tcp + 13] & SYN)) & _MASK

    def segment(self, skip: int, size: int, *, first: bool = True, last: bool = True) -> bytes:
        """The headers of a part of the segment, or of several segments joined.

        Args:
            skip: payload bytes of the packet before it (negative: it begins before the packet).
            size: payload bytes it has on the wire.
            first: it holds the packet's first byte: keep SYN.
            last: it holds the packet's last byte: keep FIN and PSH.

        Returns:
            Headers whose lengths say `size`, or 0 ("segmented by the network card") where the
            field is too small for it.
        """
        out = bytearray(self.raw)
        flags = out[self.tcp + 13]
        if not first:
            flags &= ~SYN
        if not last:
            flags &= ~(FIN | PSH)
        seq = int.from_bytes(out[self.tcp + 4 : self.tcp + 8], "big") + skip
        seq += bool(self.raw[self.tcp + 13] & SYN) and not first
        struct.pack_into(">I", out, self.tcp + 4, seq & _MASK)
        out[self.tcp + 13] = flags
        out[self.tcp + 16 : self.tcp + 18] = b"\0\0"
        set_ip_length(out, self.ip, len(out) - self.ip + size)
        return bytes(out)


def set_ip_length(packet: bytearray, ip: int, length: int) -> None:
    """Write the length of an IP datagram and, for IPv4, the header's checksum.

    Args:
        packet: changed in place.
        ip: where the IP header begins.
        length: bytes of the datagram, its header included.
    """
    if packet[ip] >> 4 == 4:
        struct.pack_into(">H", packet, ip + 2, length if length <= _MOST_IP else 0)
        set_ip_checksum(packet, ip)
    else:
        rest = length - 40
        struct.pack_into(">H", packet, ip + 4, rest if rest <= _MOST_IP else 0)


def set_ip_checksum(packet: bytearray, ip: int) -> None:
    """Write the checksum of an IPv4 header."""
    size = (packet[ip] & 15) * 4
    packet[ip + 10 : ip + 12] = b"\0\0"
    # A sum of 16-bit words with the carries added back is the remainder of the whole number.
    total = int.from_bytes(packet[ip : ip + size], "big") % 0xFFFF
    struct.pack_into(">H", packet, ip + 10, 0xFFFF ^ total)


def find_tcp(raw: bytes, seq: int, ports: tuple[int, int]) -> int:
    """Where the TCP header begins that ends with `raw`.

    Args:
        raw: headers of a packet, up to its payload.
        seq: sequence number as in the header.
        ports: source and destination port.
    """
    front = struct.pack(">HHI", *ports, seq)
    sizes: tuple[int, ...] = (32, 20, *range(24, 64, 4))
    for size in sizes:
        at = len(raw) - size
        if at >= 0 and raw[at + 12] >> 4 == size >> 2 and raw.startswith(front, at):
            return at
    return max(len(raw) - 20, 0)

"""Packets for what a relay saw: a TCP connection as a capture between both hosts shows it.

Handshake, data and ends stand at the times at which the relay saw them. An acknowledgement stands
one round-trip time, as the relay's kernel measured it, after the data it is for, unless data the
other way took it along before: so the time on the wire can be told from the worker's.
"""

from __future__ import annotations

import heapq
import ipaddress
import random
import struct
from dataclasses import dataclass, field

from rpcwire.capture.segments import ACK, FIN, PSH, RST, SYN
from rpcwire.capture.writer import PcapngWriter, Sink
from rpcwire.record.events import Event, Kind
from rpcwire.record.headers import set_ip_length

LINK_RAW = 101
# Wireshark refuses captured packets of more than 256 KiB; beyond 64 KiB the IP length says 0.
_MOST_PAYLOAD = 192 << 10
_WINDOW = 0xFFFF
_MASK = 0xFFFFFFFF
_TCP = struct.Struct(">HHIIBBHHH")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(slots=True)
class _Connection:
    """Both ends: addresses, ports, next sequence number, acknowledged up to, round-trip time."""

    addresses: list[Address]
    ports: list[int]
    sent: list[int]
    acked: list[int]
    rtt_ns: list[int] = field(default_factory=lambda: [0, 0])
    due: list[int] = field(default_factory=lambda: [0, 0])
    over: bool = False


class SyntheticCapture:
    """Turns events into the bytes of a pcapng file.

    Args:
        sink: receives them.
        name: of the interface.
    """

    def __init__(self, sink: Sink, name: str) -> None:
        self._writer = PcapngWriter(sink)
        self._writer.interface(LINK_RAW, name=name)
        self._connections: dict[int, _Connection] = {}
        self._due: list[tuple[int, int, int, int]] = []  # time, connection, side that acks, number
        self._random = random.Random()

    def take(self, event: Event) -> None:
        """Write what an event looks like on the wire."""
        self._acknowledge(event.time_ns)
        if event.kind is Kind.OPEN:
            self._open(event)
            return
        c = self._connections.get(event.connection)
        if c is None or c.over:
            return
        {
            Kind.READY: self._ready,
            Kind.DATA: self._data,
            Kind.FIN: self._fin,
            Kind.RESET: self._reset,
            Kind.RTT: self._rtt,
        }[event.kind](c, event)

    def finish(self) -> None:
        """No more events: write the acknowledgements that are due."""
        self._acknowledge(1 << 62)

    def _open(self, event: Event) -> None:
        ends = [line.split("\t") for line in event.payload.decode().split("\n")]
        addresses = [ipaddress.ip_address(address.split("%")[0]) for address, _ in ends]
        if addresses[0].version != addresses[1].version:  # a packet has one kind of both
            addresses = [_six(a) for a in addresses]
        first = [self._random.randrange(1 << 20, 1 << 31) for _ in ends]
        c = _Connection(addresses, [int(port) for _, port in ends], first, [0, 0])
        self._connections[event.connection] = c
        self._packet(c, 0, event.time_ns, SYN)
        c.sent[0] += 1

    def _ready(self, c: _Connection, event: Event) -> None:
        c.acked[1] = c.sent[0]
        self._packet(c, 1, event.time_ns, SYN | ACK)
        c.sent[1] += 1
        self._ack(c, 0, event.time_ns)

    def _data(self, c: _Connection, event: Event) -> None:
        side, data = event.side, event.payload
        c.acked[side] = c.sent[1 - side]
        c.due[side] = 0
        for at in range(0, len(data), _MOST_PAYLOAD):
            part = data[at : at + _MOST_PAYLOAD]
            self._packet(c, side, event.time_ns, ACK | PSH, part)
            c.sent[side] = (c.sent[side] + len(part)) & _MASK
        peer = 1 - side
        if c.rtt_ns[peer] and not c.due[peer]:
            c.due[peer] = event.time_ns + c.rtt_ns[peer]
            entry = (c.due[peer], event.connection, peer, c.sent[side])
            heapq.heappush(self._due, entry)

    def _acknowledge(self, now_ns: int) -> None:
        while self._due and self._due[0][0] <= now_ns:
            time_ns, number, side, upto = heapq.heappop(self._due)
            c = self._connections[number]
            if c.due[side] != time_ns or c.over:
                continue  # data went the same way in the meantime
            c.due[side] = 0
            c.acked[side] = upto
            self._packet(c, side, time_ns, ACK)

    def _fin(self, c: _Connection, event: Event) -> None:
        side = event.side
        c.acked[side] = c.sent[1 - side]
        self._packet(c, side, event.time_ns, FIN | ACK)
        c.sent[side] = (c.sent[side] + 1) & _MASK
        self._ack(c, 1 - side, event.time_ns)

    def _reset(self, c: _Connection, event: Event) -> None:
        c.acked[event.side] = c.sent[1 - event.side]
        self._packet(c, event.side, event.time_ns, RST | ACK)
        c.over = True

    def _rtt(self, c: _Connection, event: Event) -> None:
        c.rtt_ns[event.side] = int.from_bytes(event.payload, "little") * 1000

    def _ack(self, c: _Connection, side: int, time_ns: int) -> None:
        c.due[side] = 0
        c.acked[side] = c.sent[1 - side]
        self._packet(c, side, time_ns, ACK)

    def _packet(
        self, c: _Connection, side: int, time_ns: int, flags: int, data: bytes = b""
    ) -> None:
        ack = c.acked[side] if flags & ACK else 0
        ports = c.ports[side], c.ports[1 - side]
        tcp = _TCP.pack(*ports, c.sent[side], ack, 5 << 4, flags, _WINDOW, 0, 0)
        source, target = c.addresses[side].packed, c.addresses[1 - side].packed
        size = len(tcp) + len(data)
        if len(source) == 4:
            ip = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, 6, 0))
        else:
            ip = bytearray(struct.pack(">IHBB", 6 << 28, 0, 6, 64))
        ip += source + target
        set_ip_length(ip, 0, len(ip) + size)
        self._writer.packet(time_ns, bytes(ip) + tcp + data)


def _six(address: Address) -> ipaddress.IPv6Address:
    if address.version == 6:
        return ipaddress.IPv6Address(address.packed)
    return ipaddress.IPv6Address((0xFFFF << 32) | int(address))

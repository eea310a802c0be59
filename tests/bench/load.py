"""Writes the capture of a load: one connection that fills a worker with weights.

``python tests/bench/load.py OUT [PACKETS]`` writes Ethernet packets with 1,460 payload bytes each
and an acknowledgement for every eighth: HELLO, the probes, buffers, then SET_TENSOR of 4 to 40 MiB,
those above 10 MiB after a SET_TENSOR_HASH that misses, as protocol 7.0 has it. The contents are
random pages used again and again. OUT is pcap or, where it ends in .pcapng, pcapng.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from rpcwire.capture.writer import PcapngWriter, PcapWriter
from rpcwire.ggml.versions import DIALECTS

PACKETS = 214_000
MSS = 1460
ACK_EVERY = 8
PAGE = np.random.default_rng(0).bytes(1 << 20)
HASHED_FROM = 10 << 20
GAP_NS = 12_000  # of full packets at 1 Gbit/s

DIALECT = DIALECTS["7.0.0"]
IDS = {command.name: number for number, command in DIALECT.commands.items()}
_FORMATS = {"u8": "<B", "u32": "<I", "u64": "<Q"}
ETHERNET = bytes(12) + b"\x08\x00"
CLIENT, SERVER, CLIENT_PORT, SERVER_PORT = 0x0A000001, 0x0A000002, 40000, 50052
ACK, PSH, SYN = 0x10, 0x08, 0x02

#: One thing that one side sends: whether the client does, and the bytes.
Sent = tuple[bool, bytes]


def fields(part: tuple, **values: object) -> bytes:
    """A payload as the version table lays it out; what is not given is zero."""
    out = []
    for field in part:
        value = values.get(field.name, 0)
        if field.format == "tensor":
            out.append(value if isinstance(value, bytes) else bytes(DIALECT.layout.size))
        elif isinstance(field.count, int):
            out.append(struct.pack(_FORMATS[field.format], value) * field.count)
    return b"".join(out)


def ask(name: str, data: bytes = b"", **values: object) -> Iterator[Sent]:
    """A request, and its response where there is one."""
    command = DIALECT.commands[IDS[name]]
    payload = fields(command.request, **values)
    yield True, struct.pack("<BQ", IDS[name], len(payload) + len(data)) + payload + data
    if command.response is not None:
        answer = fields(command.response, **values)
        yield False, struct.pack("<Q", len(answer)) + answer


def tensor(number: int, size: int) -> bytes:
    """The record of an F16 matrix of `size` bytes."""
    row = np.zeros((), DIALECT.layout.dtype)
    rows = size // 8192
    row["id"], row["type"], row["buffer"] = 0x7F0000000000 + number * 400, 1, 0x5500000000
    row["ne"], row["nb"] = (4096, rows, 1, 1), (2, 8192, size, size)
    row["data"], row["name"] = 0x7E0000000000, f"blk.{number}.ffn_up.weight".encode()
    return row.tobytes()


def conversation(total: int) -> Iterator[Sent]:
    """All that is sent, some `total` bytes of it upwards."""
    yield from ask("HELLO", major=7, minor=0, patch=0)
    yield from ask("DEVICE_COUNT", device_count=1)
    yield from ask("GET_ALIGNMENT", alignment=128)
    yield from ask("GET_MAX_SIZE", max_size=1 << 40)
    yield from ask("GET_DEVICE_MEMORY", free=1 << 34, total=1 << 35)
    yield from ask("ALLOC_BUFFER", size=total, remote_ptr=0x5500000000, remote_size=total)
    yield from ask("BUFFER_GET_BASE", remote_ptr=0x5500000000, base_ptr=0x7E0000000000)
    number = sent = 0
    while sent < total:
        size = min((4, 4, 16, 40)[number % 4] << 20, (total - sent) // 8192 * 8192 + 8192)
        record = tensor(number, size)
        if number % 8 == 0:
            yield from ask("INIT_TENSOR", tensor=record)
        if size > HASHED_FROM:
            yield from ask("SET_TENSOR_HASH", tensor=record, hash=number)
        data = PAGE * (size // len(PAGE) + 1)
        yield from ask("SET_TENSOR", data[:size], tensor=record, cache_flag=size > HASHED_FROM)
        sent += size
        number += 1


def bursts(total: int) -> Iterator[tuple[bool, bytearray]]:
    """The conversation, what one side sends in a row joined."""
    side, joined = True, bytearray()
    for up, data in conversation(total):
        if up is not side:
            yield side, joined
            side, joined = up, bytearray()
        joined += data
    yield side, joined


def packet(up: bool, numbers: list[int], flags: int, data: bytes | memoryview = b"") -> bytes:
    """A segment in IPv4 in Ethernet; `numbers` are the next ones of client and server."""
    ends = ((SERVER, CLIENT, SERVER_PORT, CLIENT_PORT), (CLIENT, SERVER, CLIENT_PORT, SERVER_PORT))
    src, dst, sport, dport = ends[up]
    seq, ack = (numbers[0], numbers[1]) if up else (numbers[1], numbers[0])
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0, src, dst)
    low = 0xFFFFFFFF
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq & low, ack & low, 0x50, flags, 502, 0, 0)
    return b"".join((ETHERNET, ip, tcp, data))


def packets(total: int) -> Iterator[bytes]:
    """The packets, acknowledgements among them."""
    numbers = [0xFFF00000, 0x20000000]
    yield packet(True, numbers, SYN)
    numbers[0] += 1
    yield packet(False, numbers, SYN | ACK)
    numbers[1] += 1
    yield packet(True, numbers, ACK)
    heard = 0
    for up, sent in bursts(total):
        view = memoryview(sent)
        for at in range(0, len(view), MSS):
            data = view[at : at + MSS]
            last = at + MSS >= len(view)
            yield packet(up, numbers, ACK | PSH if last else ACK, data)
            numbers[not up] += len(data)
            heard += 1
            if heard % ACK_EVERY == 0:
                yield packet(not up, numbers, ACK)


def write(path: str, count: int = PACKETS) -> None:
    """Write the capture with `count` full segments."""
    with open(path, "wb") as out:
        if path.endswith(".pcapng"):
            ng = PcapngWriter(out)
            ng.interface(1, name="eth0")
            put = ng.packet
        else:
            put = PcapWriter(out, 1).packet
        for number, data in enumerate(packets(count * MSS)):
            put(1_700_000_000_000_000_000 + number * GAP_NS, data)


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:3]))

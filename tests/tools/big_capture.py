"""Writes large synthetic captures for benchmarks, fast.

``python tests/tools/big_capture.py load OUT.pcap`` writes the capture of a weight transfer:
214,000 Ethernet packets of 1,460 payload bytes with an acknowledgement now and then.
``small`` writes 500,000 packets of 100 to 400 bytes in both directions, as a decode makes them.
"""

from __future__ import annotations

import argparse
from typing import BinaryIO

import numpy as np

RECORD = np.dtype(
    [
        ("sec", "<u4"),
        ("frac", "<u4"),
        ("captured", "<u4"),
        ("length", "<u4"),
        ("mac", "V12"),
        ("ethertype", ">u2"),
        ("version_ihl", "u1"),
        ("tos", "u1"),
        ("total", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("src", ">u4"),
        ("dst", ">u4"),
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("tcp_checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
FILE_HEADER = np.array(
    [(0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)],
    np.dtype("<u4, <u2, <u2, <i4, <u4, <u4, <u4"),
)
CLIENT, SERVER, CLIENT_PORT, SERVER_PORT = 0x0A000001, 0x0A000002, 40000, 50052


def headers(payload: np.ndarray, up: np.ndarray, gap_us: int) -> np.ndarray:
    """Record and packet headers of one connection's segments, in order."""
    head = np.zeros(len(payload), RECORD)
    micros = np.arange(len(payload), dtype=np.int64) * gap_us
    head["sec"] = 1_700_000_000 + micros // 1_000_000
    head["frac"] = micros % 1_000_000
    head["captured"] = head["length"] = payload + 54
    head["ethertype"], head["version_ihl"], head["ttl"], head["protocol"] = 0x0800, 0x45, 64, 6
    head["total"] = payload + 40
    head["src"], head["dst"] = np.where(up, CLIENT, SERVER), np.where(up, SERVER, CLIENT)
    head["sport"] = np.where(up, CLIENT_PORT, SERVER_PORT)
    head["dport"] = np.where(up, SERVER_PORT, CLIENT_PORT)
    sent_up = 1 + np.cumsum(np.where(up, payload, 0)) - np.where(up, payload, 0)
    sent_down = 1 + np.cumsum(np.where(up, 0, payload)) - np.where(up, 0, payload)
    head["seq"] = np.where(up, sent_up, sent_down) & 0xFFFFFFFF
    head["ack"] = np.where(up, sent_down, sent_up) & 0xFFFFFFFF
    head["offset"], head["flags"], head["window"] = 0x50, 0x18, 502
    return head


def write(out: BinaryIO, payload: np.ndarray, up: np.ndarray, stream: bytes, gap_us: int) -> None:
    """Write the packets; payloads are filled from `stream`, again and again."""
    out.write(FILE_HEADER.tobytes())
    head = headers(payload, up, gap_us)
    fill = memoryview(stream * (2 + (1 << 20) // len(stream)))
    at = 0
    pieces: list[bytes | memoryview] = []
    raw = head.tobytes()
    size = RECORD.itemsize
    for number, length in enumerate(payload.tolist()):
        pieces.append(raw[number * size : (number + 1) * size])
        pieces.append(fill[at : at + length])
        at = (at + length) % len(stream)
        if len(pieces) > 8192:
            out.write(b"".join(pieces))
            pieces.clear()
    out.write(b"".join(pieces))


def load(out: BinaryIO, packets: int = 214_000) -> None:
    """A weight transfer: full segments up, an acknowledgement for every eighth."""
    up = np.arange(packets + packets // 8) % 9 != 8
    write(out, np.where(up, 1460, 0), up, np.random.default_rng(0).bytes(1 << 20), 10)


def small(out: BinaryIO, packets: int = 500_000) -> None:
    """A long decode: packets of 100 to 400 bytes, up and down in turn."""
    rng = np.random.default_rng(1)
    up = np.arange(packets) % 2 == 0
    write(out, rng.integers(46, 347, packets), up, rng.bytes(1 << 20), 200)


def main() -> None:
    """Command line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("kind", choices=("load", "small"))
    arguments.add_argument("out")
    options = arguments.parse_args()
    with open(options.out, "wb") as out:
        {"load": load, "small": small}[options.kind](out)


if __name__ == "__main__":
    main()

"""Crafted connections as capture files: one TCP segment a call, written with scapy."""

from __future__ import annotations

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from rpcwire.scapy import layers

RPC = layers("7.0.0")
OLD = layers("3.0.0")


class Talk:
    """A conversation of one client and one worker.

    Args:
        port: of the worker. syn: begin with the handshake.
    """

    def __init__(self, port: int = 50052, *, syn: bool = True) -> None:
        self.port = port
        self.packets: list[Packet] = []
        self._seq = [1000, 5000]
        if syn:
            self._add(0, b"", "S")
            self._add(1, b"", "SA")
            self._seq = [1001, 5001]
            self._add(0, b"", "A")

    def _add(self, side: int, data: bytes, flags: str, seq: int | None = None) -> None:
        ends = [("10.0.0.1", 40000), ("10.0.0.2", self.port)]
        (src, sport), (dst, dport) = ends[side], ends[1 - side]
        tcp = TCP(
            sport=sport,
            dport=dport,
            flags=flags,
            seq=self._seq[side] if seq is None else seq,
            ack=self._seq[1 - side],
            window=60000,
        )
        packet = Ether() / IP(src=src, dst=dst) / tcp / data
        packet.time = 1_700_000_000 + len(self.packets) * 0.001
        self.packets.append(packet)

    def send(self, side: int, data: bytes | Packet, mss: int = 1400) -> Talk:
        """Segments from the client (0) or the worker (1)."""
        raw = bytes(data)
        for at in range(0, len(raw), mss):
            part = raw[at : at + mss]
            self._add(side, part, "PA")
            self._seq[side] += len(part)
        return self

    def hello(self, major: int = 7) -> Talk:
        """HELLO and its answer."""
        self.send(0, RPC.request("HELLO"))
        return self.send(1, RPC.response("HELLO", major=major))

    def ask(self, command: str, answer: dict[str, object] | None = None, **fields: object) -> Talk:
        """A request, and its answer unless that is None."""
        self.send(0, RPC.request(command, **fields))
        return self if answer is None else self.send(1, RPC.response(command, **answer))

    def write(self, folder: Path) -> Path:
        """The capture."""
        path = folder / "talk.pcap"
        wrpcap(str(path), self.packets)
        return path


def tensor(number: int = 1, name: str = "x") -> Packet:
    """A contiguous F32 record."""
    return RPC.Tensor(
        id=number, ne=[4, 1, 1, 1], nb=[4, 16, 16, 16], tensor_name=name.encode(), buffer=9
    )


def graph(*numbers: int) -> dict[str, object]:
    """Fields of a GRAPH_COMPUTE."""
    return {"nodes": list(numbers), "tensors": [tensor(n, f"t{n}") for n in numbers]}

"""What a relay keeps of its connections."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """What went through: bytes of either side, connections, and those that failed."""

    up: int = 0
    down: int = 0
    connections: int = 0
    failed: int = 0


class Pair:
    """Both ends of one relayed connection.

    Attributes:
        sockets: client, worker. waiting: per side, bytes that it has not taken yet.
        ended: per side, whether it has ended its direction.
        passed: per side, whether the end of its direction was passed on.
    """

    __slots__ = ("ended", "number", "passed", "rtt_ns", "sockets", "waiting")

    def __init__(self, number: int, client: socket.socket, worker: socket.socket) -> None:
        self.number = number
        self.sockets = (client, worker)
        self.waiting: list[memoryview | None] = [None, None]
        self.ended = [False, False]
        self.passed = [False, False]
        self.rtt_ns = 0

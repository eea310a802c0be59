"""What is known of a TCP connection: between whom, when, and how much."""

from __future__ import annotations

from rpcwire.capture.segments import ACK, SYN
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.packet import Endpoint, Packet


class Facts:
    """One connection, from its first packet to its last, at whatever points it was captured.

    Side 0 is the initiator when the handshake told it (`initiator_known`), else the sender of the
    first packet.

    Attributes:
        id: from 0 in the order in which connections first had something to deliver; -1 before.
        initiator_known: whether a SYN said who opened it.
        start_captured: per side, whether its SYN was captured, so that offset 0 is its first byte.
        opened_ns, closed_ns: capture time of the first packet, and of the RST or second FIN
            (None while open).
        last_ns: capture time of the last packet.
        reset: whether an RST ended it.
        sides: per-direction state and counters; `sides[s].next` is the stream's length so far.
        handshake_ns: per side, time from its SYN to the acknowledgement of it.
        stray_packets, stray_bytes: packets of the same addresses and ports whose sequence numbers
            fit nowhere, and their payload and that of RST: not delivered.
        ignored: set by a consumer that does not want the data; it is counted, not delivered.
    """

    def __init__(self, limits: Limits, endpoints: tuple[Endpoint, Endpoint], first: Packet) -> None:
        self.id = -1
        self.initiator_known = bool(first.flags & SYN)
        self.flip = first.end ^ (self.initiator_known and bool(first.flags & ACK))
        self.start_captured = [False, False]
        self.opened_ns = self.last_ns = first.time_ns
        self.last_order = first.order
        self.closed_ns: int | None = None
        self.reset = False
        self.sides = (Half(limits), Half(limits))
        self.handshake_ns: list[int | None] = [None, None]
        self.stray_packets = self.stray_bytes = 0
        self.ignored = False
        self.packets = 0
        self._ends = [(endpoints, 0)]
        self._syn_ns: list[int | None] = [None, None]

    @property
    def points(self) -> list[tuple[Endpoint, Endpoint]]:
        """The addresses under which the connection was seen, side 0 first."""
        return [(ends[self.flip ^ swap], ends[1 - (self.flip ^ swap)]) for ends, swap in self._ends]

    @property
    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Address and port of side 0 and of side 1, where it was seen first."""
        return self.points[0]

    @property
    def copies(self) -> bool:
        """Whether packets were captured at several points, so that repeats are not resent.

        Told by addresses (`points`), or by three quarters of the segments being repeated.
        """
        repeats = sum(half.repeats for half in self.sides)
        segments = sum(half.segments for half in self.sides)
        return len(self._ends) > 1 or repeats > 0.75 * (segments - repeats)

    @property
    def retransmitted_bytes(self) -> int:
        """Payload bytes sent again, both directions."""
        return 0 if self.copies else sum(half.repeated for half in self.sides)

    @property
    def duplicated_bytes(self) -> int:
        """Payload bytes captured again at another point, both directions."""
        return sum(half.repeated for half in self.sides) if self.copies else 0

    @property
    def embryonic(self) -> bool:
        """Whether nothing but a handshake was taken so far."""
        return not any(half.segments for half in self.sides)

    @property
    def busy(self) -> bool:
        """Whether it carries payload and is not over."""
        return self.closed_ns is None and not self.embryonic

"""Time that requests spend on a link, one wait of the client after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: Bytes a sender may have in flight after an idle spell: ten segments (RFC 6928).
INITIAL_WINDOW = 10 * 1448


@dataclass(frozen=True, slots=True)
class Leg:
    """What happens between two waits of the client.

    Attributes:
        up: bytes sent since the last wait. down: bytes of the answer waited for.
        waits: whether an answer is waited for at all.
    """

    up: int
    down: int
    waits: bool


@dataclass(frozen=True, slots=True)
class LinkTime:
    """Seconds on the link: round trips, and bytes at its rate."""

    latency: float
    transfer: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.latency + self.transfer


def legs(exchanges: Iterable[tuple[int, int, bool]]) -> list[Leg]:
    """Join exchanges (up, down, waits) into legs; what follows the last wait is one more."""
    found: list[Leg] = []
    pending = 0
    for up, down, waits in exchanges:
        pending += up
        if waits:
            found.append(Leg(pending, down, True))
            pending = 0
    if pending:
        found.append(Leg(pending, 0, False))
    return found


def link_time(parts: Iterable[Leg], rtt: float, rate: float, *, idle: bool = False) -> LinkTime:
    """Time that legs take.

    Each wait costs a round trip and the bytes before and after it at the link's rate; the client
    talks to its workers in turn, so waits add up.

    Args:
        parts: legs in order.
        rtt: seconds of a round trip.
        rate: bytes a second each way.
        idle: the connection was quiet for longer than its retransmission time, so its window
            opens anew from ten segments.
    """
    latency = transfer = 0.0
    window = float(INITIAL_WINDOW)
    for leg in parts:
        transfer += (leg.up + leg.down) / rate
        if leg.waits:
            latency += rtt
        if idle:
            flight = min(leg.up, rtt * rate)
            if flight > window:
                rounds = math.ceil(math.log2(flight / window))
                latency += rtt * rounds - min(rounds * rtt, leg.up / rate) / 2
                window = max(window, flight)
    return LinkTime(latency, transfer)

"""Segments that TCP had to send again.

A lost packet costs at least a round trip; where nothing follows it (as in a request that waits for
an answer) it costs the retransmission timeout, 200 ms or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "retransmissions"
_FEW = 3
#: Part of the segments from which loss limits a connection: at 0.1 % one of 10 ms and 1,448 bytes
#: a segment carries 45 Mbit/s at most (Mathis et al. 1997: 1.22 x segment / (RTT x sqrt(loss))).
_SHARE = 0.001


def find(facts: Facts) -> Finding | None:
    """The finding, if segments were sent again."""
    if not facts.recorded.recorded:
        return None  # on one host it is a full queue, and costs microseconds
    repeats = segments = count = 0
    numbers: list[int] = []
    for c in facts.connections:
        if c.tcp.copies:
            continue
        again = sum(half.repeats for half in c.tcp.sides)
        repeats += again
        segments += sum(half.segments for half in c.tcp.sides)
        count += c.tcp.retransmitted_bytes
        if again:
            numbers += facts.evidence.contacts.connections.get(c.tcp.id, ())
    if repeats < _FEW or repeats < _SHARE * segments:
        return None
    # How many fell on tokens is not known one by one: as many as their part of the bytes.
    whole = facts.analysis.capture.stream_bytes
    part = ratio(facts.generation.bytes, whole)
    delay = facts.at_once * repeats * part * max(facts.recorded_rtt_ms or 0.0, facts.link.rtt_ms)
    return facts.finding(
        ID,
        f"{repeats:,} segments ({size(count)}) were sent again, "
        f"{ratio(repeats, segments):.2%} of all",
        "Find the loss: cable and port errors (ethtool -S), Wi-Fi signal, a full queue (pause "
        "frames, bufferbloat), a wrong MTU on a tunnel.",
        figures={
            "segments": segments,
            "resent_segments": repeats,
            "resent_bytes": count,
            "share": ratio(repeats, segments),
        },
        frames=numbers[:6],
        delay_ms=delay,
        confidence="medium",
    )

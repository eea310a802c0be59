"""Packets that carry a few bytes each.

A request is three sends (command, size, payload), and with TCP_NODELAY three packets. Each has 66
bytes of headers; on slow or shared media (100 Mbit, Wi-Fi, power line) they take time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "small-writes"
#: Ethernet, IPv4, TCP with timestamps; preamble, FCS and gap on the wire besides.
_HEADERS = 66 + 24
#: Most payload of a segment.
_MSS = 1448
_SHARE = 0.02
_FEW = 100


def find(facts: Facts) -> Finding | None:
    """The finding, if the headers of packets more than needed are felt in a token's time."""
    segments = 0
    frames = sum(p.frames for p in facts.analysis.phases.values())
    needed = frames
    for c in facts.connections:
        if c.tcp.copies:
            continue
        for half in c.tcp.sides:
            segments += half.segments
            needed += half.next // _MSS
    whole = facts.token_ms
    extra = segments - needed
    if whole is None or extra < _FEW or not facts.generation.frames:
        return None
    extra_in_tokens = extra * ratio(facts.generation.frames, frames)
    if facts.link.ms(facts.per_token(extra_in_tokens * _HEADERS)) < _SHARE * whole:
        return None
    return facts.finding(
        ID,
        f"{ratio(segments, frames):.1f} packets a frame: {size(extra_in_tokens * _HEADERS)} of "
        "headers more than needed while tokens are generated",
        "Nothing to set in llama.cpp: it sends command, size and payload one by one. A faster "
        "link, or one that aggregates (802.11n and later), makes it cheap; leave TCP_NODELAY on.",
        figures={
            "segments": segments,
            "segments_needed": needed,
            "frames": frames,
            "header_bytes_while_generating": round(extra_in_tokens * _HEADERS),
        },
        frames=facts.generation.numbers,
        total_bytes=extra_in_tokens * _HEADERS,
        confidence="medium",
    )

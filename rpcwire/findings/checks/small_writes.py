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
_SHARE = 0.02


def find(facts: Facts) -> Finding | None:
    """The finding, if the headers of packets more than needed are felt in a token's time."""
    waits, whole = facts.evidence.waits, facts.token_ms
    extra = waits.pieces * _HEADERS
    if (
        not extra
        or not whole
        or facts.link.ms(facts.per_token(extra)) * facts.at_once < _SHARE * whole
    ):
        return None
    return facts.finding(
        ID,
        f"a small request takes {1 + ratio(waits.pieces, waits.small):.1f} packets: "
        f"{size(facts.per_token(extra))} a token of headers more than needed",
        "Nothing to set in llama.cpp: it sends command, size and payload one by one. A faster "
        "link, or one that aggregates (802.11n and later), makes it cheap; leave TCP_NODELAY on.",
        figures={
            "small_requests": waits.small,
            "packets_more_than_needed": waits.pieces,
            "header_bytes": extra,
        },
        frames=facts.generation.numbers,
        total_bytes=extra,
        confidence="medium",
    )

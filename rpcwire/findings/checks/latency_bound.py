"""Round trips that take a large part of a token's time.

Bandwidth does not help here: each wait for an answer costs the link's round-trip time, whatever
the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "latency-bound"
_SHARE = 0.25


def find(facts: Facts) -> Finding | None:
    """The finding, from 25 % of a token on a link that is one."""
    whole = facts.token_ms
    if whole is None or not facts.link.is_network:
        return None
    cell = facts.generation
    trips = facts.per_token(cell.trips)
    spent = trips * facts.link.rtt_ms * facts.at_once
    share = ratio(spent, whole)
    if share < _SHARE:
        return None
    noun = "round trip" if trips == 1 else "round trips"
    return facts.finding(
        ID,
        f"{trips:.3g} {noun} a token x {facts.link.rtt_ms:.3g} ms are {share:.0%} of its time",
        "Shorten the way (cable instead of Wi-Fi, no tunnel or VPN, a switch less), then make "
        "fewer round trips: fewer workers and splits, no remote drafts. Speculation pays here only "
        "if it needs fewer round trips per token returned than it saves.",
        figures={
            "round_trips_per_token": trips,
            "rtt_ms": facts.link.rtt_ms,
            "rtt_source": facts.link.rtt_source,
            "share": share,
            "token_ms": whole,
        },
        frames=cell.numbers,
        trips=cell.trips,
    )

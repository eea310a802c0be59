"""Bytes that take a large part of a token's time to pass the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "link-saturated"
_SHARE = 0.25


def find(facts: Facts) -> Finding | None:
    """The finding, from 25 % of a token on a link that is one."""
    whole = facts.token_ms
    if whole is None or not facts.link.is_network:
        return None
    cell = facts.generation
    count = facts.per_token(cell.bytes)
    spent = facts.link.ms(count)
    share = ratio(spent * facts.at_once, whole)
    if share < _SHARE:
        return None
    return facts.finding(
        ID,
        f"{size(count)} a token take {spent:.3g} ms at {facts.link.mbit_s:.3g} Mbit/s, "
        f"{share:.0%} of its time",
        "Send less first: see which findings hold the bytes (graphs, logits, rotation matrices, "
        "masks). Then a faster link: 2.5 or 10 GbE, Thunderbolt.",
        figures={
            "bytes_per_token": count,
            "bytes_up_per_token": facts.per_token(cell.up),
            "bytes_down_per_token": facts.per_token(cell.down),
            "mbit_s": facts.link.mbit_s,
            "rate_source": facts.link.rate_source,
            "share": share,
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
        confidence="medium" if facts.link.rate_source == "assumed" else "high",
    )

"""Packets or a file that end early.

A snap length keeps the front of each packet: headers are there, contents are not, so graphs and
token counts are read by shape. A file that ends in the middle of a packet was copied or written
incompletely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "capture-cut"


def find(facts: Facts) -> Finding | None:
    """The finding, if packets were cut, a file is damaged, or it ends while a request runs."""
    capture = facts.analysis.capture
    unfinished = facts.evidence.contacts.unfinished
    open_at_end = [
        c for c in facts.connections if c.tcp.id in unfinished and c.tcp.closed_ns is None
    ]
    damage = facts.damage
    truncated = 0 if facts.slimmed else capture.truncated_bytes
    if not truncated and not damage and not open_at_end:
        return None
    parts = []
    if truncated:
        parts.append(f"the snap length cut {size(truncated)} of RPC streams")
    if damage:
        parts.append(damage[0])
    if open_at_end:
        parts.append(f"it ends while {open_at_end[0].name} is in the middle of a request")
    return facts.finding(
        ID,
        "; ".join(parts),
        "Capture whole packets (tcpdump -s 0, the default) until the run is over, and use rpcwire "
        "slim to make the file small: it keeps what is needed. Copy files in binary mode.",
        figures={
            "truncated_bytes": truncated,
            "damage": damage[:4],
            "open_connections": [c.name for c in open_at_end[:4]],
        },
        frames=facts.evidence.contacts.cut
        or [facts.evidence.contacts.connections[c.tcp.id][1] for c in open_at_end[:4]],
        at_most="info" if not damage else "warning",
        at_least="warning" if damage else "info",
    )

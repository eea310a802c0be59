"""Bytes that were sent but are not in the capture.

Sequence numbers and acknowledgements prove them: the capturing machine dropped packets, or they
took another way. What they carried is counted where its length is known; times suffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import many, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "capture-loss"


def find(facts: Facts) -> Finding | None:
    """The finding, if bytes are missing from both-sided connections, or drops were reported."""
    missing = 0
    touched = []
    for c in facts.connections:
        if any(not half.packets for half in c.tcp.sides):
            continue  # one side was not captured at all: another finding
        lost = sum(half.missing for half in c.tcp.sides)
        missing += lost
        if lost:
            touched.append(c)
    dropped = facts.dropped
    if not missing and not dropped:
        return None
    whole = facts.analysis.capture.stream_bytes
    parts = [f"{size(missing)} of RPC streams"] if missing else []
    parts += [many(dropped, "packet")] if dropped else []
    return facts.finding(
        ID,
        f"the capture lost {' and '.join(parts)}",
        "Record whole packets (no -s: what it cuts away hides headers) with a larger buffer "
        "(tcpdump -B 65536), to a fast disk, and only the port (tcp port 50052); or use rpcwire "
        "record, or rpcwire relay, which loses nothing. rpcwire slim makes the file small.",
        figures={
            "missing_bytes": missing,
            "stream_bytes": whole,
            "dropped_packets": dropped,
            "connections": [c.name for c in touched[:4]],
        },
        frames=facts.evidence.contacts.holes,
        at_least="warning" if missing > 0.001 * whole else "info",
    )

"""Only one direction of a connection was captured.

Port mirroring and asymmetric routes show requests without answers or the reverse. Bytes of the
missing side are known from acknowledgements at best; waiting times cannot be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "one-sided-capture"


def find(facts: Facts) -> Finding | None:
    """The finding, if a connection with data shows packets of one side only."""
    found = []
    for c in facts.connections:
        up = c.tcp.sides[max(0, c.rpc.client_side)]
        down = c.tcp.sides[1 - max(0, c.rpc.client_side)]
        if (up.segments and not down.packets) or (down.segments and not up.packets):
            found.append((c, "responses" if up.segments else "requests"))
    if not found:
        return None
    missing = sorted({what for _, what in found})
    contacts = facts.evidence.contacts.connections
    return facts.finding(
        ID,
        f"no {' and '.join(missing)} of {found[0][0].name} were captured",
        "Capture on the host of the client or the worker, or mirror both directions of the switch "
        "port; with -i any both are there.",
        figures={"connections": [c.name for c, _ in found[:4]], "missing": missing},
        frames=[contacts[c.tcp.id][0] for c, _ in found[:4] if c.tcp.id in contacts],
        at_least="warning",
    )

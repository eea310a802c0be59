"""A capture that begins in the middle of a connection.

HELLO, the load and the graphs that were sent before are not in it: roles are read by shape until
the next full graph, and the protocol version is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import many

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "mid-stream-start"


def find(facts: Facts) -> Finding | None:
    """The finding, if the beginning of a connection was not captured."""
    found = [c for c in facts.connections if not c.rpc.start_captured]
    if not found:
        return None
    contacts = facts.evidence.contacts.connections
    return facts.finding(
        ID,
        f"the capture begins in the middle of {many(len(found), 'connection')}: "
        f"{found[0].name} (protocol {found[0].rpc.protocol}, {found[0].rpc.protocol_source})",
        "Start the capture before llama-server (rpcwire record -- llama-server ...). If that "
        "cannot be, begin before a request: its prompt makes the client send its graphs in full.",
        figures={
            "connections": [c.name for c in found[:4]],
            "protocols": sorted({c.rpc.protocol for c in found}),
        },
        frames=[contacts[c.tcp.id][0] for c in found[:4] if c.tcp.id in contacts],
        at_most="info",
    )

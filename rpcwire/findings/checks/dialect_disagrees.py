"""A client that does not speak what HELLO says.

HELLO shows the server's version; forks and development builds say one and send another: tensors of
other sizes, commands with new numbers, answers that the version does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "dialect-disagrees-with-hello"


def find(facts: Facts) -> Finding | None:
    """The finding, if the dialect read differs from the one announced."""
    said = [c for c in facts.connections if c.rpc.tracker.notes]
    if not said:
        return None
    notes = sorted({note for c in said for note in c.rpc.tracker.notes})
    contacts = facts.evidence.contacts.connections
    return facts.finding(
        ID,
        f"{said[0].server} announced {said[0].rpc.protocol}, but: {notes[0]}",
        "Use builds of one origin on both ends: forks (ik_llama.cpp, unsloth, mesh-llm) keep "
        "llama.cpp's version number but not always its layout. Read byte counts with care.",
        figures={"notes": notes[:8], "connections": len(said)},
        frames=[contacts[c.tcp.id][0] for c in said[:4] if c.tcp.id in contacts],
        at_least="warning",
        confidence="medium",
    )

"""Client and worker of versions that do not understand each other.

A client accepts its own major version and a minor one not above its own. Where it does not accept,
it closes after HELLO; between 3.x and 4.x HELLO itself has another size, and the server closes. Two
workers of different versions force the client to the older one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding
    from rpcwire.seen import Seen

ID = "version-mismatch"
#: A worker that does not understand a greeting resets the connection at once.
_AT_ONCE_NS = 500_000_000


def find(facts: Facts) -> Finding | None:
    """The finding, if a worker never got beyond HELLO, or two workers differ."""
    by_server: dict[tuple[str, int], list[Seen]] = {}
    for c in facts.connections:
        by_server.setdefault(c.rpc.server, []).append(c)
    refused = {a: links for a, links in by_server.items() if _refused(links)}
    versions = {
        endpoint(address): links[0].rpc.protocol
        for address, links in by_server.items()
        if links[0].rpc.protocol_source == "hello" and address not in refused
    }
    contacts = facts.evidence.contacts.connections
    if refused:
        names = ", ".join(endpoint(address) for address in refused)
        answered = sorted(
            {
                links[0].rpc.protocol
                for links in refused.values()
                if links[0].rpc.protocol_source == "hello"
            }
        )
        said = f" (it says {', '.join(answered)})" if answered else ""
        frames = [
            contacts[c.tcp.id][0] for v in refused.values() for c in v if c.tcp.id in contacts
        ]
        return _finding(
            facts, f"client and {names}{said} got no further than HELLO", answered, frames[:4]
        )
    if len({v.rpartition(".")[0] for v in versions.values()}) > 1:
        listed = [f"{name} {version}" for name, version in sorted(versions.items())]
        frames = [n for a, n in facts.evidence.contacts.first.items() if endpoint(a) in versions]
        return _finding(
            facts, f"workers speak different versions: {', '.join(listed)}", listed, frames
        )
    return None


def _finding(facts: Facts, title: str, versions: list[str], frames: list[int]) -> Finding:
    return facts.finding(
        ID,
        title,
        "Use the same llama.cpp build on both ends. Where it is the same commit, look for a stale "
        "binary: rpc-server was renamed ggml-rpc-server, and the old one may still be started.",
        figures={"versions": versions},
        frames=frames,
        at_least="warning",
    )


def _refused(links: list[Seen]) -> bool:
    """Whether every connection of a worker ended at its greeting, one of them by being refused.

    Greetings alone are usual beside other connections: a client asks for the version that way.
    """
    if not all(c.rpc.start_captured and c.rpc.requests == 1 for c in links):
        return False
    return all(c.tcp.closed_ns is not None and _ended_by_reason(c) for c in links)


def _ended_by_reason(c: Seen) -> bool:
    """Whether the worker answered, or closed at once: a client that gave up proves nothing."""
    down = c.tcp.sides[1 - max(0, c.rpc.client_side)]
    if down.segments or down.fin is not None:
        return True
    return c.tcp.closed_ns is not None and c.tcp.closed_ns - c.tcp.opened_ns < _AT_ONCE_NS

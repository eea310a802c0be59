"""A client that waits in the worker's backlog while another is served.

A worker serves one connection at a time. A second client connects, sends HELLO, and gets no answer
until the first one has closed its connection: it hangs without a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import many
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding
    from rpcwire.seen import Seen

ID = "second-client-waiting"
_LONG_NS = 1_000_000_000


def find(facts: Facts) -> Finding | None:
    """The finding, if greetings waited while another connection was served."""
    waited = [
        (address, client, number, ns)
        for address, client, number, ns in facts.evidence.waits.greetings
        if _served(facts, address, client)
    ]
    silent = [c for c in facts.connections if _silent(facts, c)]
    if not waited and not silent:
        return None
    longest = max((ns for *_, ns in waited), default=0) / 1e9
    names = sorted({endpoint(address) for address, *_ in waited} | {c.server for c in silent})
    contacts = facts.evidence.contacts.connections
    frames = [n for *_, n, _ in waited] + [
        contacts[c.tcp.id][0] for c in silent if c.tcp.id in contacts
    ]
    lasted = f", up to {longest:.3g} s" if longest else ""
    return facts.finding(
        ID,
        f"{many(len(waited) + len(silent), 'client connection')} to {', '.join(names)} waited for "
        f"another client to finish{lasted}",
        "One ggml-rpc-server serves one client at a time. Start a second one on another port for "
        "the second client (each needs its own memory), or share one llama-server between users.",
        figures={
            "waiting": [endpoint(client) for _, client, *_ in waited] + [c.client for c in silent],
            "longest_wait_s": longest,
            "never_answered": len(silent),
        },
        frames=frames,
        at_least="warning",
    )


def _served(facts: Facts, address: tuple[str, int], client: tuple[str, int]) -> bool:
    """Whether another connection to the worker was open when this client's opened."""
    own = next((c for c in facts.connections if c.rpc.client == client), None)
    if own is None:
        return False
    return any(
        c.rpc.server == address
        and c is not own
        and c.tcp.opened_ns < own.tcp.opened_ns
        and (c.tcp.closed_ns or c.tcp.last_ns) > own.tcp.opened_ns + _LONG_NS // 4
        for c in facts.connections
    )


def _silent(facts: Facts, own: Seen) -> bool:
    """Whether a connection's greeting was never answered, while another one was served."""
    up = own.tcp.sides[max(0, own.rpc.client_side)]
    down = own.tcp.sides[1 - max(0, own.rpc.client_side)]
    if not up.segments or down.segments or not down.packets:
        return False
    if (own.tcp.closed_ns or own.tcp.last_ns) - own.tcp.opened_ns < _LONG_NS and own.tcp.closed_ns:
        return False
    return _served(facts, own.rpc.server, own.rpc.client)

"""A worker that listens on an address others can reach.

The protocol has no authentication and no encryption: who reaches the port can run graphs, read and
write the worker's memory, and read prompts off the wire. Loopback, or a tunnel to it, is the only
boundary.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from rpcwire.findings.text import is_loopback

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "routable-listener"


def find(facts: Facts) -> Finding | None:
    """The finding, if a worker's address is not a loopback one."""
    exposed: dict[str, bool] = {}
    frames = []
    for c in facts.connections:
        host = c.rpc.server[0]
        if is_loopback(host):
            continue
        if c.server not in exposed:
            frames.append(facts.evidence.contacts.connections.get(c.tcp.id, (0, 0))[0])
        exposed[c.server] = ip_address(host.partition("%")[0]).is_global
    if not exposed:
        return None
    public = [name for name, is_public in exposed.items() if is_public]
    where = "the Internet can" if public else "every host of that network can"
    return facts.finding(
        ID,
        f"{', '.join(sorted(exposed))} {'listens' if len(exposed) == 1 else 'listen'} on a "
        f"routable address: {where} use it, without a password, in plain text",
        "Let ggml-rpc-server listen on 127.0.0.1 (-H 127.0.0.1, the default) and reach it through "
        "ssh -L 50052:127.0.0.1:50052 or WireGuard; or allow only the client's address in the "
        "firewall, on a network you trust.",
        figures={"listeners": sorted(exposed), "public": sorted(public)},
        frames=[n for n in frames if n],
        at_least="warning",
    )

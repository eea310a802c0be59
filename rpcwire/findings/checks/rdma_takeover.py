"""A connection that went on over RDMA, so that TCP shows nothing of it.

From protocol 4.0 HELLO carries capabilities; where both sides have RDMA, data moves there and the
TCP connection is silent until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "rdma-takeover"


def find(facts: Facts) -> Finding | None:
    """The finding, if both sides offered RDMA."""
    offered = [c for c in facts.connections if any("RDMA" in note for note in c.rpc.notes)]
    if not offered:
        return None
    silent = [c for c in offered if any("went on over RDMA" in note for note in c.rpc.notes)]
    contacts = facts.evidence.contacts.connections
    what = (
        "went on over RDMA after HELLO: this capture cannot show its traffic"
        if silent
        else "was offered RDMA by both sides but stayed on TCP"
    )
    return facts.finding(
        ID,
        f"{(silent or offered)[0].server} {what}",
        "To see the traffic, keep it on TCP for the recording: GGML_RPC_NO_RDMA=1 for llama-server "
        "or the worker. If RDMA was meant to be used and was not, look at GGML_RDMA_DEV and "
        "GGML_RDMA_GID.",
        figures={"offered": len(offered), "silent": len(silent)},
        frames=[contacts[c.tcp.id][0] for c in offered[:4] if c.tcp.id in contacts],
        at_least="warning" if silent else "info",
    )

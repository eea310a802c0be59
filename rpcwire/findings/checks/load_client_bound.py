"""A load in which the link waits for the client.

Above about 1 Gbit/s reading and hashing weights (FNV-1a, one thread, about 1.25 GiB/s) takes longer
than sending them: a faster link would not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "load-client-bound"
#: Part of the load's time in which nothing was under way, and the least load that counts.
_SHARE = 0.5
_BYTES = 8 << 20


def find(facts: Facts) -> Finding | None:
    """The finding, if the client was the limit of a load of some size."""
    load = facts.evidence.loading
    whole = load.end_ns - load.start_ns
    offered = load.weights + load.hit_bytes
    if offered < _BYTES or whole <= 0:
        return None
    share = ratio(load.idle_ns, whole)
    if share < _SHARE:
        return None
    seconds = load.idle_ns / 1e9
    return facts.finding(
        ID,
        f"{seconds:.2g} of the load's {whole / 1e9:.2g} s the link waited for the client "
        f"({size(offered)} of weights)",
        "Keep the model on a fast local disk (and in the page cache: load twice); a worker with -c "
        "and a warm cache needs hashes only, which the client computes on one thread. A faster "
        "link will not help.",
        figures={
            "load_seconds": whole / 1e9,
            "client_seconds": seconds,
            "wire_seconds": load.wire_ns / 1e9,
            "answer_seconds": load.wait_ns / 1e9,
            "weight_bytes": load.weights,
            "hashed": load.hashed,
            "mbit_s": ratio(load.weights * 8e3, whole),
        },
        frames=load.weight_numbers,
        confidence="medium",
    )

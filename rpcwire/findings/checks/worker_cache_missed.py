"""Weights offered by hash, not found, and sent in full.

The client offers tensors over 10 MiB by hash first. A worker that was started with -c has them on
disk after the first load; without -c it never has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import many, ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "worker-cache-missed"


def find(facts: Facts) -> Finding | None:
    """The finding, if offers missed."""
    load = facts.evidence.loading
    missed = load.hashed - load.hits
    if missed <= 0:
        return None
    seconds = facts.link.ms(load.missed_bytes) / 1e3
    return facts.finding(
        ID,
        f"{missed:,} of {many(load.hashed, 'tensor')} offered by hash were not in the worker's "
        f"cache: {size(load.missed_bytes)} sent in full, {seconds:.2g} s on this link",
        "Start the worker with -c (ggml-rpc-server -c): the next load of this model needs hashes "
        "only. After a first load with -c nothing is wrong; otherwise look whether its cache "
        "folder (LLAMA_CACHE) is writable and has room.",
        figures={
            "offered": load.hashed,
            "hits": load.hits,
            "missed": missed,
            "missed_bytes": load.missed_bytes,
            "hit_share": ratio(load.hits, load.hashed),
            "seconds": seconds,
        },
        frames=load.numbers,
    )

"""Activations treated as weights: hashed and offered to the worker's cache.

Below protocol 7.0 every upload over 10 MiB is hashed first, a prompt's activations too. They are
never found, so each costs a hash and a round trip, and a worker with -c writes them all to disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.finding import PROMPT_TOKEN
from rpcwire.findings.text import many

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "activations-hashed"
_PASSES = ("warmup", "prefill", "decode", "verify", "draft")


def find(facts: Facts) -> Finding | None:
    """The finding, if inputs of a pass were offered by hash."""
    cell = facts.tallies.sum(phases=_PASSES, commands=("SET_TENSOR_HASH",))
    offers = cell.frames // 2 if cell.down else cell.frames
    if not offers:
        return None
    return facts.finding(
        ID,
        f"{many(offers, 'activation')} of prefill passes were hashed and offered to the worker's "
        "cache, then sent anyway",
        "Update both ends to protocol 7.0 (September 2026), which hashes weights only. Until then "
        "use a smaller -ub, so that an activation stays under 10 MiB, or start the worker without "
        "-c, and delete the cache folder's files of that size.",
        figures={
            "offers": offers,
            "bytes": cell.bytes,
            "round_trips": cell.trips,
            "protocols": sorted({w.protocol for w in facts.analysis.workers}),
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
        per=PROMPT_TOKEN,
    )

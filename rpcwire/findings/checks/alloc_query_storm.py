"""GET_ALLOC_SIZE again and again while tokens are generated.

Before protocol 6.0 a client asks for the size of every attention and quantized tensor whenever it
builds a graph anew: a blocking round trip and 3,285 bytes each, hundreds for a model, and with
drafts in every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "alloc-query-storm"
#: Share of the passes of generation from which the queries are no start-up any more.
_SHARE = 0.25
_FEW = 3


def find(facts: Facts) -> Finding | None:
    """The finding, if many passes had to ask first."""
    waits = facts.evidence.waits
    passes = facts.evidence.graphs.passes
    if waits.query_passes < _FEW or waits.query_passes < _SHARE * passes:
        return None
    cell = facts.tallies.sum(phases=GENERATION, roles=("alloc_query",))
    return facts.finding(
        ID,
        f"{waits.query_passes:,} of {passes:,} passes are preceded by size queries: "
        f"{facts.per_token(cell.trips):.3g} round trips a token",
        "Update both ends to protocol 6.0 or later (August 2026): answers are then remembered. "
        "Until then keep the batch's shape constant (no drafts, -np 1), so that graphs are reused.",
        figures={
            "queries": cell.trips,
            "bytes": cell.bytes,
            "passes": passes,
            "passes_with_queries": waits.query_passes,
            "queries_per_pass": ratio(cell.trips, waits.query_passes),
        },
        frames=waits.query_numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
    )

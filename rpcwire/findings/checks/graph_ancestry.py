"""Graphs that repeat the splits before them.

GRAPH_COMPUTE lists every tensor that its nodes reach, also those that an earlier split of the same
pass computed. With one split a layer each graph holds the ones before it, so a token's bytes grow
with the square of the splits, and as the graphs differ, none can be reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "graph-ancestry"
_FEW_BYTES = 0.05


def find(facts: Facts) -> Finding | None:
    """The finding, if splits of a pass repeat one another."""
    graphs = facts.evidence.graphs
    share = ratio(graphs.ancestry_bytes, graphs.split_bytes)
    if graphs.splits < 2 or share < _FEW_BYTES:
        return None
    grown = ", ".join(size(count) for count in graphs.growth[:6])
    return facts.finding(
        ID,
        f"{graphs.splits} graphs a pass on one device, each with what the ones before computed "
        f"({grown}{', ...' if len(graphs.growth) > 6 else ''})",
        "Fewer splits: move whole layers instead of weight classes (-ts, -ngl, anchored -ot "
        "patterns), so that each device computes one graph a pass, which is then reused.",
        figures={
            "graphs_per_pass": graphs.splits,
            "repeated_bytes": graphs.ancestry_bytes,
            "share_of_graph_bytes": share,
            "passes": graphs.ancestry_passes,
            "graph_bytes": [str(count) for count in graphs.growth],
        },
        frames=graphs.ancestry_numbers,
        total_bytes=graphs.ancestry_bytes,
    )

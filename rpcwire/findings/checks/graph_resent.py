"""Graphs sent in full that the device had computed before.

A worker remembers one graph a device, and from protocol 3.5 a client asks for it again with 13
bytes. Where two graphs take turns on a device (target and draft head, or several splits of one
pass) each is sent in full every time; below 3.5 every graph is. A full graph is 296 bytes a tensor
and the worker cannot begin before it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.graphs import Graphs
from rpcwire.findings.text import many, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "graph-resent"
#: Fewer resent graphs than this may be chance.
_FEW = 3


def find(facts: Facts) -> Finding | None:
    """The finding, if graphs were resent, or the dialect has no reuse."""
    graphs = facts.evidence.graphs
    if graphs.old_full > graphs.resent_bytes:
        return _old(facts, graphs)
    if graphs.resent < _FEW:
        return None
    pairs = [f"{after} after {before}" for (before, after), _ in graphs.alternations.most_common(4)]
    mostly = graphs.resent * 2 > graphs.possible
    drafts = any("draft" in pair for pair in pairs)
    splits = any("split" in pair for pair in pairs)
    title = (
        f"{graphs.resent:,} of {many(graphs.passes, 'pass', 'passes')} sent graphs in full that "
        f"the device had computed before: {size(facts.per_token(graphs.resent_bytes))} a token "
        "where 13 bytes would do"
    )
    return facts.finding(
        ID,
        title,
        _remedy(drafts, splits),
        figures={
            "passes": graphs.passes,
            "passes_where_reuse_was_possible": graphs.possible,
            "passes_with_resent_graphs": graphs.resent,
            "resent_bytes": graphs.resent_bytes,
            "full_graph_bytes": graphs.full,
            "alternating": pairs,
        },
        frames=graphs.numbers,
        total_bytes=graphs.resent_bytes,
        at_least="warning" if mostly else "info",
    )


def _remedy(drafts: bool, splits: bool) -> str:
    if drafts:
        return (
            "Keep target and draft off the same device: give the draft a device of its own "
            "(--spec-draft-device for a draft model), or let the last layers, which an MTP head "
            "follows, be on the client's own device (-dev RPC0,CUDA0), so that only the target's "
            "graph is on the worker. Of several workers only the one with the last layers resends."
        )
    if splits:
        return (
            "Several splits of one pass take turns on the device: move whole layers instead of "
            "parts of them (-ts, -ngl; anchor -ot patterns), so that one split is left."
        )
    return (
        "Leave graph reuse on (unset LLAMA_GRAPH_REUSE_DISABLE), and keep the batch's shape: fewer "
        "parallel slots with drafts of changing length."
    )


def _old(facts: Facts, graphs: Graphs) -> Finding:
    return facts.finding(
        ID,
        f"every pass sends its graphs in full, {size(facts.per_token(graphs.old_full))} a token: "
        "this protocol has no reuse",
        "Update llama.cpp on both ends to protocol 3.5 or later (December 2025): an unchanged "
        "graph then takes 13 bytes.",
        figures={
            "passes": graphs.old_passes,
            "full_graph_bytes": graphs.old_full,
            "protocols": sorted({w.protocol for w in facts.analysis.workers}),
        },
        frames=graphs.old_numbers,
        total_bytes=graphs.old_full,
    )

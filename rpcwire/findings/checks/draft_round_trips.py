"""Blocking reads while drafting.

A draft step is a pass of its own whose results (hidden state, candidates and their scores) the
client waits for, one read after the other, before it can begin the next: with an MTP head three
round trips a drafted token. On a link with latency they are most of a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "draft-round-trips"


def find(facts: Facts) -> Finding | None:
    """The finding, if drafts were computed on a worker."""
    cell = facts.tallies.sum(phases=("draft",), commands=("GET_TENSOR",))
    passes = facts.analysis.phases["draft"].passes
    if not cell.trips or not facts.drafted:
        return None
    all_trips = facts.tallies.sum(moments=(TOKENS,)).trips
    each = ratio(cell.trips, facts.drafted)
    return facts.finding(
        ID,
        f"drafting waits {each:.1f} times for each drafted token, "
        f"{facts.per_token(cell.trips):.2g} round trips per token returned",
        "Draft on the client, where a read costs nothing (-devd with a local device; for an MTP "
        "head put the last layers there: -dev RPC0,CUDA0). Else draft less: --spec-draft-n-max 1 "
        "or 2, or stop early with --spec-draft-p-min 0.75.",
        figures={
            "reads": cell.frames // 2,
            "round_trips": cell.trips,
            "drafted_tokens": facts.drafted,
            "draft_passes": passes,
            "round_trips_per_drafted_token": each,
            "share_of_all_round_trips": ratio(cell.trips, all_trips),
        },
        frames=cell.numbers,
        trips=cell.trips,
    )

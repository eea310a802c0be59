"""Requests that run side by side, but each in passes of its own.

Slots that generate at the same time share a pass: one row each, one set of round trips for all.
Where every pass holds one sequence, they take turns, and each waits for the others' round trips.
The cost is what sharing would save on the link: the worker computes the rows either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "parallel-serialised"
#: Requests generating at once: two, half of the time. Sequences that passes share of those that
#: they could: less than half.
_AT_ONCE, _SHARED = 1.5, 0.5
_FEW = 8


def find(facts: Facts) -> Finding | None:
    """The finding, if requests overlapped and their passes did not."""
    phases = facts.analysis.phases
    passes = phases["decode"].passes + phases["verify"].passes
    if passes < _FEW:
        return None
    at_once = facts.at_once
    per_round = 1 + ratio(facts.drafted, facts.rounds)
    sequences = ratio(phases["decode"].rows + phases["verify"].rows / per_round, passes)
    if facts.rounds and facts.drafted:
        # A verify pass of several sequences counts each of their drafts.
        blocks = facts.analysis.phases["verify"].rows - facts.drafted
        sequences = ratio(phases["decode"].rows + blocks, passes)
    if at_once < _AT_ONCE or sequences > 1 + _SHARED * (at_once - 1):
        return None
    saved = 1 - sequences / at_once
    return facts.finding(
        ID,
        f"{at_once:.1f} requests generate at once, but a pass holds {sequences:.1f} of them",
        "Serve them from one llama-server with slots (-np N): slots share a pass. With one server "
        "already, give slots one KV buffer (--kv-unified) so that their rows can be computed "
        "together; several llama-server processes on one worker take turns.",
        figures={
            "requests_at_once": at_once,
            "sequences_per_pass": sequences,
            "passes": passes,
        },
        frames=facts.tallies.sum(phases=("decode", "verify"), commands=_GRAPHS).numbers,
        total_bytes=facts.generation.bytes * saved,
        trips=facts.generation.trips * saved,
        confidence="medium",
    )


_GRAPHS = ("GRAPH_COMPUTE", "GRAPH_RECOMPUTE")

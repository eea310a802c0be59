"""Recurrent state saved to the client and restored while tokens are generated.

A hybrid model (attention and recurrent layers) whose context cannot roll back saves its recurrent
state before drafts are verified and restores it when one is rejected, then computes the kept ones
again. The state does not depend on the context's length, but it is megabytes for real models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "recurrent-state-transfer"


def find(facts: Facts) -> Finding | None:
    """The finding, if recurrent state crossed the link after a request's first token."""
    cell = facts.tallies.sum(phases=("state",), roles=("recurrent_state",), moments=(TOKENS,))
    restored = facts.tallies.sum(
        phases=("state",),
        roles=("recurrent_state",),
        moments=(TOKENS,),
        commands=("SET_TENSOR",),
    )
    # Reads without a restore are checkpoints of another slot's prompt.
    if not cell.bytes or not restored.up:
        return None
    return facts.finding(
        ID,
        f"recurrent state crosses the link while tokens are generated: "
        f"{size(cell.down)} saved, {size(restored.up)} restored",
        "Use speculation that rolls back on the worker (--spec-type draft-mtp in current builds "
        "does); with n-gram drafts on a hybrid model use --spec-type none.",
        figures={
            "bytes_down": cell.down,
            "bytes_up": cell.up,
            "restores": restored.frames,
            "round_trips": cell.trips,
            "rounds": facts.rounds,
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
    )

"""State read back as a checkpoint while a prompt is computed.

llama-server keeps checkpoints of contexts that cannot be cut at any position (recurrent and
sliding-window layers): it ends the ubatch early, reads the state through the client, and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import PROMPT, TOKENS
from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "prompt-checkpoint"


def find(facts: Facts) -> Finding | None:
    """The finding, if state was read between the passes of a prompt."""
    state = facts.tallies.sum
    cell = state(phases=("state",), moments=(PROMPT,), commands=("GET_TENSOR",))
    if not state(phases=("state",), moments=(TOKENS,), commands=("SET_TENSOR",)).up:
        # A slot's checkpoint while another one generates.
        cell.add(state(phases=("state",), moments=(TOKENS,), commands=("GET_TENSOR",)))
    if not cell.down:
        return None
    requests = max(1, len(facts.analysis.requests))
    return facts.finding(
        ID,
        f"{size(cell.down / requests)} of state a request are read as checkpoints while the prompt "
        "is computed",
        "Fewer checkpoints: --ctx-checkpoints 0 (-ctxcp) turns them off, --checkpoint-min-step "
        "spaces them; prompts that share a beginning are then computed again. --swa-full keeps "
        "sliding-window models from needing any.",
        figures={
            "bytes": cell.bytes,
            "reads": cell.frames // 2,
            "round_trips": cell.trips,
            "requests": requests,
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
        whole_request=True,
    )

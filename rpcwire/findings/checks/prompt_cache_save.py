"""A slot's KV cache fetched to the client between requests.

With --cache-ram (8 GiB by default) llama-server keeps the state of a slot that takes an unrelated
prompt: all its K and V come down, two reads a layer, before the next prompt begins, and go up again
when the old one returns. Slot saves (--slot-save-path) look the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import ELSE
from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "prompt-cache-save"
_STATE = ("kv_state", "recurrent_state")


def find(facts: Facts) -> Finding | None:
    """The finding, if state was read or written between requests."""
    cell = facts.tallies.sum(phases=("state",), roles=_STATE, moments=(ELSE,))
    keys = facts.tallies.sum(phases=("state",), roles=("kv_state",), moments=(ELSE,))
    if not keys.bytes:
        return None
    seconds = facts.link.ms(cell.bytes, cell.trips) / 1e3
    return facts.finding(
        ID,
        f"between requests {size(cell.down)} of a slot's state are saved to the client and "
        f"{size(cell.up)} sent back, {seconds:.2g} s on this link",
        "--cache-ram 0 turns the prompt cache off (prompts that return are computed again), "
        "--no-cache-idle-slots keeps idle slots from being saved; more slots (-np) keep several "
        "conversations on the worker.",
        figures={
            "bytes_down": cell.down,
            "bytes_up": cell.up,
            "round_trips": cell.trips,
            "requests": len(facts.analysis.requests),
            "seconds": seconds,
        },
        frames=keys.numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
        whole_request=True,
        between=True,
    )

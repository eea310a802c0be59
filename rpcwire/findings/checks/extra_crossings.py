"""A device entered more than once in a pass.

Each device should be entered once and left once for a token. What puts parts of its layers
elsewhere (`-ot`, experts or attention on the client, weights and their KV cache on different
devices) makes the pass leave and come back: each time a blocking read and an upload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "extra-crossings"
#: Of the passes, from which on it is the placement and no single event (a shift of the context).
_EACH = 0.1


def find(facts: Facts) -> Finding | None:
    """The finding, if passes entered a device again."""
    places = facts.evidence.places
    if places.extra_entries < _EACH * places.passes or not places.passes:
        return None
    experts = places.extra_roles["expert_ids"] + places.extra_roles["expert_out"] > 0
    each = ratio(places.extra_entries, places.passes)
    return facts.finding(
        ID,
        f"a pass enters the same device up to {places.most_steps} times: {each:.1f} crossings out "
        "and in more than needed",
        _remedy(experts),
        figures={
            "passes": places.passes,
            "extra_entries_per_pass": each,
            "graphs_per_pass_on_a_device": places.most_steps,
            "extra_round_trips": places.extra_trips,
            "extra_bytes": places.extra_bytes,
            "bytes_by_role": {k: float(v) for k, v in places.extra_roles.most_common()},
        },
        frames=places.extra_numbers,
        total_bytes=places.extra_bytes,
        trips=places.extra_trips,
    )


def _remedy(experts: bool) -> str:
    if experts:
        return (
            "Each layer's experts on the client cost a crossing out and in. Keep the experts of "
            "whole blocks of layers together (--n-cpu-moe N keeps the first N layers), give the "
            "client whole layers instead (-ts, -ngl), or put them on the worker."
        )
    return (
        "Move whole layers, not parts of them: -ts and -ngl instead of -ot; anchor -ot patterns "
        "('^blk\\.[0-7]\\.' rather than 'ffn'), and keep a layer's KV cache with its attention "
        "(no -nkvo)."
    )

"""Hidden states that the client fetches from one worker and sends to the next.

llama.cpp has no way from worker to worker: the client reads the result (a round trip), and uploads
the same bytes. Half of that round trip and one of the two transfers would remain with a direct way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "relayed-between-workers"


def find(facts: Facts) -> Finding | None:
    """The finding, if one worker's output was sent to another."""
    places = facts.evidence.places
    if not places.relays or not places.passes:
        return None
    each = ratio(places.relays, places.passes)
    return facts.finding(
        ID,
        f"the client passes {each:.1f} hidden states a pass from worker to worker, "
        f"{size(facts.per_token(places.relay_bytes))} a token read and sent again",
        "Serve devices of one host by one ggml-rpc-server (-d CUDA0,CUDA1; they then copy "
        "directly) instead of one each; use fewer workers where the model fits; run llama-server "
        "on the host of one of the workers.",
        figures={
            "relays": places.relays,
            "passes": places.passes,
            "bytes": places.relay_bytes,
            "workers": len(places.servers),
        },
        frames=places.relay_numbers,
        total_bytes=places.relay_bytes / 2,
        trips=places.relay_trips / 2,
    )

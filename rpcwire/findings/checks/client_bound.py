"""The client's own time dominates a token.

Between an answer and the next request nothing is under way: the client samples, builds a graph, or
computes its own layers. A faster link or worker will not help much.

Where all layers are on workers that share the client's host, both take the processor from one
another: what the client seems to take is then the machine's load as much as its own work, and no
more than a remark; likewise in a capture from the workers' side, where what the link delays looks
like the client's. Layers of its own are a placement, and a fault where the client takes far more
than all workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "client-bound"
#: More than workers and link together.
_SHARE = 0.5
#: Milliseconds a token below which a client has nothing to save: to sort 250,000 candidates and
#: build a graph takes one to three.
_LEAST_MS = 3.0
#: Client over workers from which layers of its own are too many: cards that are used together
#: differ by two to three times in memory bandwidth (data/gpus.toml), and get layers accordingly.
_TIMES = 3.0
#: Part of the stream that may be missing before times mean nothing.
_MISSING = 0.02


def find(facts: Facts) -> Finding | None:
    """The finding, if the client takes most of a token."""
    client, workers, whole = facts.client_ms, facts.server_ms, facts.token_ms
    capture = facts.analysis.capture
    if client is None or not whole:
        return None
    stalled = facts.evidence.waits.stall_ns[TOKENS] / 1e6
    client -= facts.per_token(stalled)
    if client < _LEAST_MS:
        return None
    if capture.missing_bytes > _MISSING * capture.stream_bytes:
        return None
    share = ratio(client, whole)
    if share < _SHARE:
        return None
    own = _own_layers(facts)
    seen = facts.recorded.recorded and not facts.nearer_worker
    counts = client >= _TIMES * (workers or 0.0) if own else seen
    return facts.finding(
        ID,
        f"the client itself takes {client:.3g} of a token's {whole:.3g} ms"
        + (", computing layers of its own" if own else ""),
        "If layers run on the client's CPU, offload them (-ngl 99) or give the client a GPU; more "
        "threads (-t); cheaper sampling (fewer samplers, no grammar, no n_probs); for experts kept "
        "by -ot or --cpu-moe, memory bandwidth of the client is the limit.",
        figures={
            "client_ms": client,
            "network_ms": facts.analysis.per_token.network_ms,
            "server_ms": workers,
            "share": share,
            "own_layers": own,
        },
        frames=facts.generation.numbers,
        delay_ms=client * facts.tokens,
        at_most="problem" if counts else "info",
        confidence="medium",
    )


def _own_layers(facts: Facts) -> bool:
    """Whether the client computes layers: the first, the last, or some in between."""
    phases = ("decode", "verify")
    enters = facts.tallies.sum(phases=phases, roles=("embedding_in",)).up
    leaves = facts.tallies.sum(phases=phases, roles=("logits", "sampling")).down
    return not enters or not leaves or facts.evidence.places.extra_entries > 0

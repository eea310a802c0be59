"""The client's own time dominates a token.

Between an answer and the next request nothing is under way: the client samples, builds a graph, or
computes its own layers. A faster link or worker will not help much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "client-bound"
_SHARE = 0.6
#: Milliseconds a token below which a client has nothing to save: sampling takes as long.
_LEAST_MS = 3.0
#: Part of the stream that may be missing before times mean nothing.
_MISSING = 0.02


def find(facts: Facts) -> Finding | None:
    """The finding, if the client takes most of a token."""
    client, whole = facts.analysis.per_token.client_ms, facts.token_ms
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
    return facts.finding(
        ID,
        f"the client itself takes {client:.3g} of a token's {whole:.3g} ms",
        "If layers run on the client's CPU, offload them (-ngl 99) or give the client a GPU; more "
        "threads (-t); cheaper sampling (fewer samplers, no grammar, no n_probs); for experts kept "
        "by -ot or --cpu-moe, memory bandwidth of the client is the limit.",
        figures={
            "client_ms": client,
            "network_ms": facts.analysis.per_token.network_ms,
            "server_ms": facts.analysis.per_token.server_ms,
            "share": share,
        },
        frames=facts.generation.numbers,
        delay_ms=client * facts.tokens,
        confidence="medium",
    )

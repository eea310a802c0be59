"""Stalls of about 40 ms: Nagle's algorithm against delayed acknowledgements.

Each command is three small sends. Without TCP_NODELAY the second waits until the first was
acknowledged, and the receiver delays that by 40 ms. Both ends of llama.cpp set TCP_NODELAY, so it
is an old build, or a proxy or tunnel between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import PROMPT, TOKENS
from rpcwire.findings.text import many, ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "delayed-ack-stall"
_FEW = 5
#: Where a round trip alone takes this long, a frame's parts may well be 40 ms apart.
_FAR_MS = 20.0
_SHARE = 0.02


def find(facts: Facts) -> Finding | None:
    """The finding, if frames came in two parts, or probes late, by 40 ms, often."""
    waits = facts.evidence.waits
    tcp = min((w.tcp_rtt_ms for w in facts.analysis.workers if w.tcp_rtt_ms), default=0.0)
    stalled = sum(waits.stalls.values()) + waits.trivial_stalls
    here, lost = waits.stalls[TOKENS], waits.stall_ns[TOKENS] / 1e6
    if waits.trivial_stalls >= _FEW and waits.trivial_stalls > _SHARE * waits.trivial:
        # Behind the stall of another leg: what is late here is late for the same reason.
        here += waits.late[TOKENS]
        lost += waits.late[TOKENS] * 40.0
        stalled += sum(waits.late.values())
    if stalled < _FEW or tcp >= _FAR_MS or stalled < _SHARE * waits.frames / 2:
        return None
    total = sum(waits.stall_ns.values()) / 1e6
    mean = ratio(total, sum(waits.stalls.values())) or 40.0
    return facts.finding(
        ID,
        f"{many(stalled, 'wait')} of about 40 ms, {facts.per_token(here):.2g} a token: something "
        "between client and worker does not set TCP_NODELAY",
        "Connect without the proxy or forwarder, or make it set TCP_NODELAY (socat: ,nodelay on "
        "both addresses). "
        "With an old build, update: llama.cpp sets it on both ends.",
        figures={
            "stalls": stalled,
            "stalls_while_generating": here,
            "stalls_in_prefill": waits.stalls[PROMPT],
            "late_probes": waits.trivial_stalls,
            "probes": waits.trivial,
            "mean_stall_ms": mean,
        },
        frames=waits.stall_numbers,
        delay_ms=lost * facts.at_once,
    )

"""One worker that is much slower for its layers than the others.

Tokens pass through the workers one after the other, so the slow one's layers cost most: moving
some of them to the faster one saves the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import server

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "worker-uneven"
#: Time per layer of the slowest over that of the fastest. The output layer is no layer here but
#: takes time on the last worker, hence not less.
_RATIO = 2.5
_FEW = 5


def find(facts: Facts) -> Finding | None:
    """The finding, if a layer takes much longer on one worker than on another."""
    rtts = {w.server: w.rtt_ms or 0.0 for w in facts.analysis.workers}
    busy: dict[str, float] = {}
    layers: dict[str, int] = {}
    frames: list[int] = []
    for address, share in facts.evidence.places.servers.items():
        if share.waits < _FEW or not share.layers or not share.passes:
            continue
        name = server(address)
        ms = share.waited_ns / 1e6 / share.passes
        busy[name] = max(0.0, ms - rtts.get(name, 0.0) * share.waits / share.passes)
        layers[name] = share.layers
        frames += share.numbers[:3]
    if len(busy) < 2:
        return None
    each = {name: busy[name] / layers[name] for name in busy}
    slow = max(each, key=lambda name: each[name])
    fast = min(each, key=lambda name: each[name])
    if each[slow] < _RATIO * each[fast] or not each[slow]:
        return None
    passes = facts.evidence.places.passes
    saved = (each[slow] - each[fast]) * layers[slow] / 2 * passes
    return facts.finding(
        ID,
        f"a layer takes {each[slow]:.3g} ms on {slow} and {each[fast]:.3g} ms on {fast}",
        f"Give {fast} more layers (-ts), as many as fit; see what slows {slow} down (device, "
        "threads, power, another client).",
        figures={
            "ms_per_pass": busy,
            "layers": {name: float(count) for name, count in layers.items()},
            "ms_per_layer": each,
        },
        frames=frames,
        delay_ms=saved,
        confidence="medium",
    )

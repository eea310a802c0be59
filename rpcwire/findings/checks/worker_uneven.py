"""One worker that is much slower for its layers than the others.

Tokens pass through the workers one after the other, so the slow one's layers cost most: moving
some of them to the faster one saves the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "worker-uneven"
#: Time per graph node of the slowest over that of the fastest: nodes are a rough measure (layers
#: of a model differ by up to twice in what a node computes). Where the slowest has the output
#: layer: one node that takes as long as vocabulary / (12 x hidden size) layers, ten of thirty.
_RATIO, _RATIO_OUTPUT = 2.5, 5.0
#: Milliseconds a pass below which a difference is no more than scheduling (the
#: shortest time slice of Linux).
_LEAST_MS = 0.75
_FEW = 5


def find(facts: Facts) -> Finding | None:
    """The finding, if the same work takes much longer on one worker than on another."""
    places = facts.evidence.places
    if places.extra_entries:
        return None  # what else is computed in between is not the worker's time
    rtts = {w.server: w.rtt_ms or 0.0 for w in facts.analysis.workers}
    busy: dict[str, float] = {}
    nodes: dict[str, float] = {}
    ratio: dict[str, float] = {}
    frames: list[int] = []
    for address, share in places.servers.items():
        if share.waits < _FEW or not share.nodes:
            continue
        name = endpoint(address)
        ms = share.waited_ns / 1e6 / share.passes
        busy[name] = max(0.0, ms - rtts.get(name, 0.0) * share.waits / share.passes)
        nodes[name] = float(share.nodes)
        ratio[name] = _RATIO_OUTPUT if share.output else _RATIO
        frames += share.numbers[:3]
    if len(busy) < 2:
        return None
    each = {name: busy[name] / nodes[name] for name in busy}
    slow = max(each, key=lambda name: each[name])
    fast = min(each, key=lambda name: each[name])
    lost = (each[slow] - each[fast]) * nodes[slow]
    if each[slow] < ratio[slow] * each[fast] or lost < _LEAST_MS:
        return None
    return facts.finding(
        ID,
        f"{slow} takes {busy[slow]:.3g} ms a pass for {nodes[slow]:,.0f} graph nodes, {fast} "
        f"{busy[fast]:.3g} ms for {nodes[fast]:,.0f}",
        f"Give {fast} more layers (-ts), as many as fit; see what slows {slow} down (device, "
        "threads, power, another client).",
        figures={"ms_per_pass": busy, "graph_nodes": nodes, "passes": places.passes},
        frames=frames,
        # Half of its layers may be moved before the other one is as slow.
        delay_ms=lost / 2 * places.passes * facts.steady * facts.at_once,
        confidence="medium",
    )

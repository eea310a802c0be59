"""A round trip of RPC that is far above TCP's: the connection ends before the worker.

TCP's acknowledgements come from the other end of the TCP connection. If they are much faster than
answers to trivial commands, that end is a tunnel or proxy (ssh -L, stunnel, socat), which forwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.pricing import LOCAL_RTT_MS
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding
    from rpcwire.runs.totals import WorkerTimes

ID = "tunnel"
#: RPC's round trip over TCP's: of one path the median of a few answers may well be two or three
#: times the least acknowledgement. The least difference is what tells a path from a host.
_TIMES, _MORE_MS = 4.0, LOCAL_RTT_MS
_FEW = 5


def find(facts: Facts) -> Finding | None:
    """The finding, for the worker with the largest difference."""
    found = None
    probes = {
        endpoint(address): rtt
        for address, times in facts.session.run.totals.workers.items()
        if (rtt := _probe_ms(times)) is not None
    }
    for worker in facts.analysis.workers:
        rpc, tcp = probes.get(worker.server), worker.tcp_rtt_ms
        if rpc is None or tcp is None:
            continue
        if rpc >= _TIMES * tcp and rpc - tcp >= _MORE_MS and (found is None or rpc > found[0]):
            found = (rpc, tcp, worker.server)
    if found is None:
        return None
    rpc, tcp, name = found
    trips = facts.generation.trips
    contacts = facts.evidence.contacts
    return facts.finding(
        ID,
        f"{name} acknowledges in {tcp:.3g} ms but answers in {rpc:.3g} ms: a tunnel or proxy",
        "A tunnel is the right protection for a protocol without one. To see what it costs, "
        "capture at both ends and use rpcwire compare; WireGuard adds less than ssh -L.",
        figures={"rpc_rtt_ms": rpc, "tcp_rtt_ms": tcp, "worker": name},
        frames=list(contacts.first.values())[:3],
        trips=trips if facts.recorded.recorded else 0,
        at_most="info",
        confidence="medium",
    )


def _probe_ms(times: WorkerTimes) -> float | None:
    """From the capture point to the worker and back, by answers to trivial commands."""
    medians = [d.quantile(0.5) for d in times.trivial.values() if d.count >= _FEW]
    return min(medians) / 1e6 if medians else None

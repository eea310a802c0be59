"""A ceiling near 94 Mbit/s: what 100 Mbit Ethernet gives.

A bad cable, an old switch or a power-saving driver makes a gigabit port negotiate 100 Mbit/s; the
link works, ten times slower. Fast Ethernet carries 94.1 Mbit/s of TCP payload at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import is_loopback, ratio

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "negotiated-100mbit"
_LOW, _HIGH = 84.0, 96.0


def find(facts: Facts) -> Finding | None:
    """The finding, if the fastest long transfer reached this ceiling and no more."""
    rate = facts.evidence.loading.mbit_s
    remote = any(not is_loopback(c.rpc.server[0]) for c in facts.connections)
    if not _LOW <= rate <= _HIGH or not (remote or facts.recorded.recorded):
        return None
    cell = facts.generation
    slow = facts.per_token(cell.bytes) * 8 / (rate * 1e3)
    lost = slow * (1 - rate / 941.0)
    return facts.finding(
        ID,
        f"no transfer was faster than {rate:.1f} Mbit/s, what 100 Mbit Ethernet carries",
        "Look at what was negotiated (ethtool eth0 | grep Speed; Get-NetAdapter on Windows) on "
        "both hosts and the switch; change the cable (all four pairs are needed), the port, or a "
        "forced speed setting.",
        figures={
            "mbit_s": rate,
            "ceiling_mbit_s": 94.1,
            "transfer_ms_per_token": slow,
            "load_seconds_lost": ratio(facts.evidence.loading.weights * 8e-6, rate)
            * (1 - rate / 941.0),
        },
        frames=facts.evidence.loading.weight_numbers or cell.numbers,
        delay_ms=lost * facts.tokens * facts.at_once,
        confidence="medium",
    )

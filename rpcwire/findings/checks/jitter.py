"""Answers to trivial commands that take now long, now short.

A token waits for every answer, so it pays the mean round-trip time, not the least: Wi-Fi, power
saving and other traffic make the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import server

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding
    from rpcwire.runs.distribution import Distribution

ID = "jitter"
_FEW = 8
#: Spread of the middle half, in ms and as a part of the median, from which it is jitter.
_SPREAD_MS, _SPREAD = 0.2, 0.3


def find(facts: Facts) -> Finding | None:
    """The finding, if round-trip times of a link spread widely."""
    if not facts.recorded.recorded:
        return None
    worst: tuple[float, str, Distribution] | None = None
    for address, times in facts.session.run.totals.workers.items():
        # The steadiest command counts: some wait for a connection to be taken, or for a driver.
        asked = [d for d in times.trivial.values() if d.count >= _FEW]
        if not asked:
            continue
        steady = min(asked, key=_middle)
        if worst is None or _middle(steady) > worst[0]:
            worst = (_middle(steady), server(address), steady)
    if worst is None:
        return None
    spread, name, times_of = worst
    median = times_of.quantile(0.5) / 1e6
    if spread < _SPREAD_MS or spread < _SPREAD * median:
        return None
    low, high = times_of.quantile(0.1) / 1e6, times_of.quantile(0.9) / 1e6
    mean = times_of.total / times_of.count / 1e6
    trips = facts.generation.trips
    return facts.finding(
        ID,
        f"round-trip times to {name} vary from {low:.3g} to {high:.3g} ms (p10 to p90)",
        "Use a cable; on Wi-Fi turn power saving off (iw dev wlan0 set power_save off), use 5 or 6 "
        "GHz, keep other transfers off the link; look for bufferbloat (ping during a load).",
        figures={
            "samples": times_of.count,
            "p10_ms": low,
            "middle_half_ms": spread,
            "median_ms": median,
            "p90_ms": high,
            "mean_ms": mean,
        },
        frames=facts.generation.numbers,
        delay_ms=trips * max(0.0, mean - low),
        confidence="medium",
    )


def _middle(times: Distribution) -> float:
    """Spread of the middle half in ms."""
    return (times.quantile(0.75) - times.quantile(0.25)) / 1e6

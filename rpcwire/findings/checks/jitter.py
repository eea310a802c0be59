"""Answers to trivial commands that take now long, now short.

A token waits for every answer, so it pays the mean round-trip time, not the least: Wi-Fi, power
saving and other traffic make the difference. It is named where the mean costs a token 5 % more than
the tenth percentile would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.pricing import LOCAL_RTT_MS, WARNING_SHARE
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding
    from rpcwire.runs.distribution import Distribution

ID = "jitter"
_FEW = 8


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
            worst = (_middle(steady), endpoint(address), steady)
    if worst is None:
        return None
    spread, name, times_of = worst
    if spread < LOCAL_RTT_MS:
        return None  # hosts alone make as much
    median = times_of.quantile(0.5) / 1e6
    low, high = times_of.quantile(0.1) / 1e6, times_of.quantile(0.9) / 1e6
    mean = times_of.total / times_of.count / 1e6
    delay = facts.generation.trips * max(0.0, mean - low) * facts.at_once
    if facts.per_token(delay) < WARNING_SHARE * (facts.token_ms or 0.0):
        return None
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
        delay_ms=delay,
        confidence="medium",
    )


def _middle(times: Distribution) -> float:
    """Spread of the middle half in ms."""
    return (times.quantile(0.75) - times.quantile(0.25)) / 1e6

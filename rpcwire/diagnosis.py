"""Why a run is slow: what `rpcwire diagnose` shows, as data."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from rpcwire.accounts import accounted
from rpcwire.analysis import Analysis
from rpcwire.findings import Facts, Finding, PricedLink, find
from rpcwire.findings.speculation import Speculation, speculation
from rpcwire.reading import Progress, Sources, When

SCHEMA_VERSION = 1


@dataclass(slots=True)
class Diagnosis:
    """Findings of a run, the most expensive first.

    Attributes:
        analysis: the accounts. facts: what the findings stand on.
        link: the link that costs are priced on. token_ms: time of a token on it.
        speculation: the account of speculative decoding, None without.
    """

    analysis: Analysis
    facts: Facts
    findings: list[Finding]
    link: PricedLink
    token_ms: float | None
    speculation: Speculation | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "files": self.analysis.capture.files,
            "link": {
                "name": self.link.name,
                "rtt_ms": self.link.rtt_ms,
                "mbit_s": self.link.mbit_s,
                "recorded": self.link.recorded,
                "rtt_source": self.link.rtt_source,
                "rate_source": self.link.rate_source,
            },
            "tokens": self.analysis.per_token.tokens,
            "ms_per_token": self.token_ms,
            "findings": [finding.to_dict() for finding in self.findings],
            "speculation": None if self.speculation is None else self.speculation.to_dict(),
            "notes": self.analysis.capture.notes,
        }


def diagnose(
    paths: Sources,
    *,
    ports: Container[int] | None = None,
    since: When = None,
    until: When = None,
    request: int | None = None,
    link: PricedLink | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Name the causes that make a run slow, prove and price them.

    Args:
        paths: a capture, or several that are one run.
        ports: only connections with one of these ports; None finds them all.
        since: beginning of the window that counts.
        until: its end.
        request: count only what was sent while this request ran.
        progress: called with bytes read and bytes in all.
        link: the link to price on; None takes the recorded one, or 1 Gbit Ethernet with 0.3 ms
            where the recorded round-trip time is below 0.1 ms.

    Raises:
        CaptureError: nothing in the input is a capture, or it cannot be read.
        UsageError: the window makes no sense.
    """
    analysis, facts = accounted(
        paths,
        ports=ports,
        gguf=None,
        since=since,
        until=until,
        request=request,
        progress=progress,
        link=link,
    )
    findings = find(facts)
    analysis.findings = [finding.to_dict() for finding in findings]
    return Diagnosis(analysis, facts, findings, facts.link, facts.token_ms, speculation(facts))

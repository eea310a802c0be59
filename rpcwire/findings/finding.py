"""What a finding is, and in which order findings are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SEVERITIES = ("info", "warning", "problem")
CONFIDENCES = ("low", "medium", "high")

#: What a cost is divided by.
TOKEN, PROMPT_TOKEN = "generated token", "prompt token"

Figure = float | int | str | bool | None | list[str] | dict[str, float]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a cause costs per token, on the link that `Link` names.

    Attributes:
        bytes_per_token: stream bytes of the cause, both directions.
        round_trips_per_token: waits for an answer that the cause makes.
        ms_per_token: both on the link, and delays that were measured.
        ms_per_token_without: the token's time that would remain; None where it is not known.
        per: the token that counts (one of TOKEN and PROMPT_TOKEN).
        link: the link in words.
    """

    bytes_per_token: float
    round_trips_per_token: float
    ms_per_token: float
    ms_per_token_without: float | None
    per: str
    link: str

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        return {
            "bytes_per_token": _rounded(self.bytes_per_token),
            "round_trips_per_token": _rounded(self.round_trips_per_token),
            "ms_per_token": _rounded(self.ms_per_token),
            "ms_per_token_without": _rounded(self.ms_per_token_without),
            "per": self.per,
            "link": self.link,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, proved and priced.

    Attributes:
        id: stable name, also that of its page in docs/findings.
        severity: one of SEVERITIES. confidence: one of CONFIDENCES.
        title: one sentence, figures included.
        figures: what was measured, by name. frames: packets that show it.
        files: of each of `frames` the file, where the run is in several.
        share: part of the token's time that the cost is; None where it is not known.
        of_requests: `share` is one of whole requests, prompts and pauses included.
        remedy: what to change.
    """

    id: str
    severity: str
    title: str
    cost: Cost
    remedy: str
    confidence: str = "high"
    figures: Mapping[str, Figure] = field(default_factory=dict)
    frames: Sequence[int] = ()
    files: Sequence[str] = ()
    share: float | None = None
    of_requests: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        figures = {
            name: _rounded(value) if isinstance(value, float) else value
            for name, value in self.figures.items()
        }
        evidence: dict[str, Any] = {"figures": figures, "frames": list(self.frames)}
        if self.files:
            evidence["files"] = list(self.files)
        return {
            "id": self.id,
            "severity": self.severity,
            "title": self.title,
            "evidence": evidence,
            "cost": self.cost.to_dict(),
            "share_of_token": _rounded(self.share),
            "remedy": self.remedy,
            "confidence": self.confidence,
        }


def rank(severity: str) -> int:
    """0 for info, 2 for a problem."""
    return SEVERITIES.index(severity)


def ordered(findings: list[Finding]) -> list[Finding]:
    """By milliseconds per token, the most expensive first; equal ones by severity."""
    return sorted(findings, key=lambda f: (-f.cost.ms_per_token, -rank(f.severity), f.id))


def worst(findings: list[Finding], count: int = 3) -> list[Finding]:
    """The findings that matter most: by severity, then by cost; no mere remarks."""
    serious = [f for f in findings if f.severity != "info"]
    return sorted(serious, key=lambda f: (-rank(f.severity), -f.cost.ms_per_token))[:count]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")

"""The examples in docs/findings: `python -m tests.findings.pages` writes them anew."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from rpcwire.cli.pricing import priced_on
from rpcwire.diagnosis import diagnose
from rpcwire.findings import Finding
from tests.findings.lab import CAPTURES, diagnosed

PAGES = CAPTURES.parent / "docs" / "findings"
_EXAMPLE = re.compile(r"(?m)^`rpcwire diagnose (captures/[^`]+)` \((?:info|warning|problem)\): .*$")


def example(page: Path) -> tuple[str, str] | None:
    """What a page says of a recorded run, and what it should say; None where it names none."""
    found = _EXAMPLE.search(page.read_text("utf-8"))
    if found is None:
        return None
    capture, *options = shlex.split(found[1])
    stated = dict(zip(options[::2], options[1::2], strict=True))
    if stated:
        link = priced_on(None, stated.get("--rtt"), stated.get("--bandwidth"))
        findings = diagnose(str(CAPTURES.parent / capture), link=link).findings
    else:
        findings = diagnosed(Path(capture).name.split(".pcap")[0]).findings
    shown = next((f for f in findings if f.id == page.stem), None)
    return found[0], "" if shown is None else f"`rpcwire diagnose {found[1]}` {_said(shown)}"


def _said(finding: Finding) -> str:
    numbers = ", ".join(map(str, finding.frames[:4]))
    cost = finding.cost
    parts = []
    if cost.bytes_per_token >= 1:
        parts.append(f"{cost.bytes_per_token:,.0f} bytes")
    if cost.round_trips_per_token:
        one = cost.round_trips_per_token == 1
        parts.append(f"{cost.round_trips_per_token:.3g} round trip{'' if one else 's'}")
    if cost.ms_per_token:
        parts.append(f"{cost.ms_per_token:.3g} ms")
    text = f"{', '.join(parts)} per {cost.per}" if parts else f"no cost per {cost.per.split()[-1]}"
    if parts and finding.share is not None:
        whose = "the time of requests" if finding.of_requests else "its time"
        text += f", {finding.share:.0%} of {whose}"
    packets = "Packet" if len(finding.frames) == 1 else "Packets"
    return (
        f"({finding.severity}): {finding.title}. {packets} {numbers}. Cost: {text}, on {cost.link}."
    )


def main() -> None:
    """Write all examples anew."""
    for page in sorted(PAGES.glob("*.md")):
        texts = example(page)
        if texts is not None and all(texts):
            page.write_text(page.read_text("utf-8").replace(*texts), "utf-8")


if __name__ == "__main__":
    main()

"""Findings as text for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rpcwire.findings.finding import SEVERITIES, TOKEN, Finding, worst
from rpcwire.output.terminal import WIDTH, Style, paragraph, printable
from rpcwire.output.units import bytes_text, ms_text, number_text, plural, trips_text

if TYPE_CHECKING:
    from rpcwire.diagnosis import Diagnosis
    from rpcwire.findings.speculation import Speculation

_MOST_FRAMES = 6
#: Milliseconds a token that are worth a figure.
_LEAST_MS = 0.0005


def diagnose_text(diagnosis: Diagnosis, style: Style, *, verbose: int = 0) -> str:
    """The whole report, without a line feed at the end.

    Args:
        diagnosis: what to show.
        style: of the terminal.
        verbose: 1 adds evidence and remedies of remarks, and figures of all findings.
    """
    parts = ["\n".join(paragraph(p) for p in _summary(diagnosis))]
    if diagnosis.speculation is not None:
        parts.append(_speculation(diagnosis.speculation, style))
    for severity in reversed(SEVERITIES):
        for finding in diagnosis.findings:
            if finding.severity == severity:
                full = verbose or severity != "info"
                parts.append(_finding(finding, style, figures=bool(full), remedy=bool(full)))
    return "\n\n".join(parts)


def finding_lines(findings: Iterable[Mapping[str, Any]], style: Style) -> list[str]:
    """The worst findings of an analysis (as dictionaries), a line each.

    Args:
        findings: `Analysis.findings`.
        style: of the terminal.
    """
    serious = [f for f in findings if f["severity"] != "info"]
    rank = SEVERITIES.index
    serious.sort(key=lambda f: (-rank(f["severity"]), -f["cost"]["ms_per_token"]))
    lines = []
    for f in serious[:3]:
        ms = f["cost"]["ms_per_token"]
        cost = f" ({ms_text(ms)} a token)" if ms else ""
        text = printable(f"- {f['id']}{cost}: {f['title']}")
        text = textwrap.shorten(text, WIDTH, placeholder=" ...")
        lines.append(style.warn(text) if f["severity"] == "problem" else text)
    if len(serious) > 3:
        lines.append(style.dim(f"and {len(serious) - 3} more: rpcwire diagnose names them all"))
    return lines


def _summary(diagnosis: Diagnosis) -> list[str]:
    if not diagnosis.analysis.connections:
        return ["No connection speaks ggml RPC (`rpcwire analyze` names the others)."]
    counts = {s: sum(f.severity == s for f in diagnosis.findings) for s in SEVERITIES}
    said = [plural(counts[s], s) for s in ("problem", "warning") if counts[s]]
    if counts["info"]:
        said.append(plural(counts["info"], "remark"))
    lines = [f"{', '.join(said) if said else 'Nothing found'}."]
    top = worst(diagnosis.findings, 1)
    if top and top[0].share:
        lines[0] += f" Worst: {top[0].id}, {top[0].share:.0%} of the time of {_whole(top[0])}."
    elif top:
        lines[0] += f" Worst: {top[0].id}."
    if diagnosis.token_ms is not None:
        lines.append(
            f"A generated token takes {ms_text(diagnosis.token_ms)} on the link that costs are "
            f"priced on: {diagnosis.link.name}. Costs of findings may overlap."
        )
    elif diagnosis.findings:
        lines.append("No token was generated after a prompt, so nothing can be priced per token.")
    return lines


def _whole(finding: Finding) -> str:
    return "whole requests" if finding.of_requests else f"a {finding.cost.per}"


def _finding(finding: Finding, style: Style, *, figures: bool, remedy: bool) -> str:
    mark = {"problem": style.warn, "warning": style.bold, "info": style.dim}[finding.severity]
    head, cost = f"{finding.severity.upper()}  {finding.id}", _cost(finding)
    lines = [mark(head)]
    if cost and len(head) + 2 + len(cost) <= WIDTH:
        lines[0] += "  " + cost
    elif cost:
        lines.append(paragraph(cost, "  "))
    lines.append(paragraph(printable(finding.title[:1].upper() + finding.title[1:] + "."), "  "))
    if figures and finding.frames:
        text = f"See {_where(finding)} ({_figures(finding)})."
        lines.append(style.dim(paragraph(printable(text), "  ")))
    if remedy:
        lines.append(paragraph(f"Change: {finding.remedy}", "  "))
    return "\n".join(lines)


def _where(finding: Finding) -> str:
    """Packets as Wireshark numbers them: "packets 3, 14 of a.pcap; packet 2 of b.pcap"."""
    shown = finding.frames[:_MOST_FRAMES]
    by_file: dict[str, list[int]] = {}
    short = {name: PurePath(name).name for name in finding.files}
    names = [
        short[name] if len({*short.values()}) == len(short) else name for name in finding.files
    ]
    for number, name in zip(shown, names or [""] * len(shown), strict=False):
        by_file.setdefault(name, []).append(number)
    parts = []
    for name, numbers in by_file.items():
        text = "packet " if len(numbers) == 1 else "packets "
        text += ", ".join(f"{n:,}" for n in numbers)
        parts.append(f"{text} of {name}" if name else text)
    return "; ".join(parts)


def _cost(finding: Finding) -> str:
    cost = finding.cost
    parts = []
    if cost.ms_per_token >= _LEAST_MS:
        parts.append(f"{ms_text(cost.ms_per_token)}")
    if cost.bytes_per_token >= 1:
        parts.append(bytes_text(cost.bytes_per_token))
    if cost.round_trips_per_token:
        parts.append(trips_text(cost.round_trips_per_token))
    if not parts:
        return ""
    text = f"{', '.join(parts)} per {'token' if cost.per == TOKEN else cost.per}"
    if finding.share is not None:
        text += f", {finding.share:.0%}" + (" of requests" if finding.of_requests else "")
    return text


def _figures(finding: Finding) -> str:
    shown = []
    for name, value in finding.figures.items():
        if isinstance(value, bool) or value is None or isinstance(value, list | dict):
            continue
        text = value if isinstance(value, str) else number_text(value)
        shown.append(f"{name.replace('_', ' ')} {printable(text)}")
    return "; ".join([*shown[:6], f"confidence {finding.confidence}"])


def _speculation(account: Speculation, style: Style) -> str:
    even = account.break_even_acceptance
    pays = f"{even:.0%} acceptance" if even <= 1 else "no acceptance at all"
    at_most = "at most " if account.plain_source == "modelled" else ""
    lines = [
        style.bold("SPECULATION") + f"  {plural(account.rounds, 'round')}",
        paragraph(
            f"A round takes {ms_text(account.round_ms)}, a plain token "
            f"{at_most}{ms_text(account.plain_ms)} ({account.plain_source}); a round drafts "
            f"{account.drafts_per_round:.1f} and returns {account.tokens_per_round:.2f} tokens "
            f"({account.acceptance:.0%} accepted), and pays from "
            f"{account.break_even_tokens:.2f} tokens on ({pays}).",
            "  ",
        ),
        paragraph(
            "Beyond a plain token: "
            + ", ".join(f"{c.name} {ms_text(c.ms)}" for c in account.causes[:3])
            + ".",
            "  ",
        ),
        style.bold(paragraph(account.verdict, "  ")),
    ]
    lines += [paragraph(text, "    ", "  - ") for text in account.advice]
    return "\n".join(lines)

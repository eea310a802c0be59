"""The last sections of a run: findings, other links, the capture itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.finding import SEVERITIES, TOKEN, Finding
from rpcwire.links.catalogue import catalogue
from rpcwire.output.markup import Child, Markup, element, joined
from rpcwire.output.plot_bars import link_figure
from rpcwire.output.units import bytes_text, ms_text, number_text, seconds_text
from rpcwire.predict.recorded import averages, replay
from rpcwire.report import html

if TYPE_CHECKING:
    from rpcwire.report.gather import RunReport

_MOST_FRAMES = 12
_MOST_CONNECTIONS = 100
_MOST_NOTES = 100


def findings(run: RunReport, prefix: str, level: int) -> Markup:
    """Findings with evidence, cost and remedy, the serious ones first."""
    found = sorted(run.findings, key=lambda f: -SEVERITIES.index(f.severity))
    words = (
        f"Priced on: {run.facts.link.name}. Costs may overlap."
        if found
        else "Nothing was found that deserves a word."
    )
    return html.section(
        f"{prefix}findings",
        "Findings",
        element("p", words),
        *(finding(f, prefix, level + 1) for f in found),
        level=level,
    )


def finding(f: Finding, prefix: str, level: int) -> Markup:
    """One finding."""
    heading = element(
        f"h{level}", element("span", f.severity, class_=f"tag {f.severity}"), f" {f.id}"
    )
    parts: list[Child] = [heading, element("p", f"{f.title[:1].upper()}{f.title[1:]}.")]
    cost = _cost(f)
    if cost:
        parts.append(element("p", cost))
    parts.append(element("p", element("strong", "Change: "), f.remedy))
    figures = [
        element("div", element("dt", name.replace("_", " ")), element("dd", _figure(value)))
        for name, value in f.figures.items()
        if value is not None
    ]
    evidence: list[Child] = [element("dl", *figures, class_="figures")] if figures else []
    if f.frames:
        numbers = ", ".join(f"{n:,}" for n in f.frames[:_MOST_FRAMES])
        evidence.append(element("p", f"See packets {numbers}."))
    evidence.append(element("p", f"Confidence: {f.confidence}."))
    parts.append(
        element("details", element("summary", "Evidence"), *evidence, open=f.severity != "info")
    )
    return element("article", *parts, id=f"{prefix}finding-{f.id}", class_=f"finding {f.severity}")


def _cost(f: Finding) -> str:
    parts = [
        words
        for words, amount in (
            (ms_text(f.cost.ms_per_token), f.cost.ms_per_token),
            (bytes_text(f.cost.bytes_per_token), f.cost.bytes_per_token),
            (
                f"{number_text(f.cost.round_trips_per_token)} round trips",
                f.cost.round_trips_per_token,
            ),
        )
        if amount
    ]
    if not parts:
        return ""
    text = f"Cost: {', '.join(parts)} per {'token' if f.cost.per == TOKEN else f.cost.per}"
    return text + (f", {f.share:.0%} of its time." if f.share is not None else ".")


def _figure(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_figure(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return number_text(value) if isinstance(value, int | float) else str(value)


def links(run: RunReport, prefix: str, level: int) -> Markup:
    """What other links would make of the run."""
    name, title = f"{prefix}links", "On other links"
    token = run.analysis.per_token
    if not token.tokens:
        words = (
            "No token is generated in this capture, so other links cannot be predicted from it; "
            "rpcwire predict -m MODEL does so without one."
        )
        return html.section(name, title, element("p", words), level=level)
    recorded = averages(run.analysis, run.evidence.uploads.rate)
    own = recorded.link()
    results = replay(recorded, [*([] if own is None else [own]), *catalogue()])
    unknown = None
    if token.ms is None or own is None:
        unknown = element(
            "p",
            "How long client and workers compute cannot be told from this capture, as it does not "
            "show the round-trip time: the figures are what the network alone would allow.",
        )
    rows = [
        (
            r.link.title,
            html.Cell(ms_text(r.link.rtt_ms[1]), r.link.rtt_ms[1]),
            html.Cell(f"{r.link.mbit_s[1]:,.0f} Mbit/s", r.link.mbit_s[1]),
            html.ms(r.network_ms),
            html.ms(r.total_ms),
            html.number(r.tokens_per_s[1] if r.tokens_per_s else r.ceiling),
            html.share(r.share),
            html.seconds(r.cold_s),
            r.limited_by,
        )
        for r in results
    ]
    head = ("link", "RTT", "rate", "network a token", "a token", "tokens/s", "network's part",
            "load", "limited by")  # fmt: skip
    assumed = element(
        "ul", *(element("li", f"{a.name}: {a.value} ({a.source})") for a in recorded.assumptions())
    )
    return html.section(
        name,
        title,
        element("p", "The recorded waits and bytes on other links; computing stays as it was."),
        unknown,
        html.figure(f"{prefix}link", lambda width: link_figure(results, width)),
        html.table("The run on other links", head, rows),
        element("details", element("summary", "What this stands on"), assumed),
        level=level,
    )


def capture(run: RunReport, prefix: str, level: int) -> Markup:
    """What was captured, and what is wrong with it."""
    c = run.analysis.capture
    facts: list[tuple[str, str]] = [
        ("files", ", ".join(c.files)),
        ("link types", ", ".join(c.link_types) or "-"),
        ("packets", f"{c.packets:,}"),
        ("duration", seconds_text(c.duration_s)),
        ("on the wire", bytes_text(c.wire_bytes)),
        ("RPC streams", bytes_text(c.stream_bytes)),
        ("sent but not captured", bytes_text(c.missing_bytes)),
        ("left out or cut off", bytes_text(c.truncated_bytes)),
        ("undecoded", bytes_text(c.undecoded_bytes)),
        ("sent again", bytes_text(c.retransmitted_bytes)),
        ("other connections", f"{c.other_connections:,}, {bytes_text(c.other_bytes)}"),
    ]
    listed = element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in facts),
        class_="figures",
    )
    notes = [element("li", note) for note in c.notes[:_MOST_NOTES]]
    more = len(c.notes) - len(notes)
    if more > 0:
        notes.append(element("li", f"and {more:,} more"))
    comments = [element("li", words) for words in run.facts.health.comments[:_MOST_NOTES]]
    return html.section(
        f"{prefix}capture",
        "The capture",
        element("p", "Damage and doubts:") if notes else element("p", "No damage was found."),
        element("ul", *notes) if notes else None,
        listed,
        joined(element("p", "Comments in the files:"), element("ul", *comments))
        if comments else None,
        _workers(run),
        _connections(run),
        level=level,
    )  # fmt: skip


def _workers(run: RunReport) -> Markup | None:
    rows = [
        (
            w.server,
            w.protocol,
            html.count(w.connections),
            html.size(w.bytes_up),
            html.size(w.bytes_down),
            html.size(w.bytes_up_per_token),
            html.size(w.bytes_down_per_token),
            html.ms(w.wait_ms_per_token),
            html.ms(w.rtt_ms),
        )
        for w in run.analysis.workers[:_MOST_CONNECTIONS]
    ]
    head = ("worker", "protocol", "connections", "up", "down", "up/token", "down/token",
            "wait/token", "RTT")  # fmt: skip
    more = len(run.analysis.workers) - len(rows)
    return html.table("Workers", head, rows, left_off=more) if rows else None


def _connections(run: RunReport) -> Markup | None:
    found = run.analysis.connections
    rows = [
        (
            html.Cell(str(c.id), c.id),
            f"{c.client} > {c.server}",
            f"{c.protocol}{'' if c.protocol_source == 'hello' else ' (inferred)'}",
            html.count(c.requests),
            html.size(c.bytes_up),
            html.size(c.bytes_down),
        )
        for c in found[:_MOST_CONNECTIONS]
    ]
    if not rows:
        return None
    head = ("number", "connection", "protocol", "requests", "up", "down")
    listed = html.table("Connections", head, rows, left_off=len(found) - len(rows))
    return element("details", element("summary", f"Connections ({len(found):,})"), listed)

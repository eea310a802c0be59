"""The first sections of a run: the verdict, bytes by role, the run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.finding import worst
from rpcwire.ggml.frame import DOWN, UP
from rpcwire.output.markup import Markup, element, joined
from rpcwire.output.plot import Figure
from rpcwire.output.plot_bars import role_figure, token_figure
from rpcwire.output.plot_timeline import TimelineData, timeline_figure
from rpcwire.output.summary import ROLE_WORDS, summary
from rpcwire.output.units import bytes_text, ms_text, number_text
from rpcwire.report import html

if TYPE_CHECKING:
    from rpcwire.report.gather import RunReport
    from rpcwire.report.timeline import Timeline

_MOST_REQUESTS = 200
#: Part of the whole run below which the requests get a timeline of their own.
_OWN_TIMELINE = 0.7


def verdict(run: RunReport, prefix: str, level: int) -> Markup:
    """What a token costs, and on what it is spent; the worst findings."""
    token = run.analysis.per_token
    tiles = []
    if token.tokens:
        total = (token.bytes_up or 0) + (token.bytes_down or 0)
        tiles = [
            ("tokens/s", number_text(1e3 / token.ms) if token.ms else "-"),
            ("a token", ms_text(token.ms)),
            ("up a token", bytes_text(token.bytes_up)),
            ("down a token", bytes_text(token.bytes_down)),
            ("round trips a token", number_text(token.round_trips)),
        ]
        if run.floor_bytes:
            tiles.append(("times the textbook floor", number_text(total / run.floor_bytes)))
    figures = element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in tiles),
        class_="tiles",
    )
    return html.section(
        f"{prefix}verdict",
        "Verdict",
        html.paragraphs(summary(run.analysis)),
        figures if tiles else None,
        _split(run, prefix),
        _worst(run, prefix),
        _drafts(run),
        level=level,
    )


def _split(run: RunReport, prefix: str) -> Markup | None:
    token = run.analysis.per_token
    if not token.ms or token.server_ms is None:
        return None
    parts = [
        ("client", "client", token.client_ms or 0.0),
        ("up", "network", token.network_ms or 0.0),
        ("worker", "workers", token.server_ms),
    ]
    return html.figure(f"{prefix}time", lambda width: token_figure(parts, width))


def _worst(run: RunReport, prefix: str) -> Markup | None:
    top = worst(run.findings)
    if not top:
        return None
    lines = [
        element(
            "li",
            element("a", f"{f.severity}: {f.id}", href=f"#{prefix}finding-{f.id}"),
            f": {f.title}.",
        )
        for f in top
    ]
    return joined(element("p", "What costs the most:"), element("ul", *lines))


def _drafts(run: RunReport) -> Markup | None:
    account = run.speculation
    if account is None:
        return None
    advice = [element("li", line) for line in account.advice]
    return joined(
        element("p", f"Speculation: {account.verdict}"), element("ul", *advice) if advice else None
    )


def roles(run: RunReport, prefix: str, level: int) -> Markup:
    """Bytes by role beside the textbook floor."""
    analysis, floor = run.analysis, run.floor_bytes
    token = analysis.per_token
    total = (token.bytes_up or 0) + (token.bytes_down or 0)
    ranked = sorted(
        analysis.roles, key=lambda r: (-(r.bytes_per_token or 0), -(r.bytes_up + r.bytes_down))
    )
    rows = [
        (
            html.role(r.role, ROLE_WORDS),
            html.size(r.bytes_up),
            html.size(r.bytes_down),
            html.count(r.frames),
            html.size(r.bytes_up_per_token),
            html.size(r.bytes_down_per_token),
            html.share((r.bytes_per_token or 0) / total if total else None),
        )
        for r in ranked
    ]
    head = ("role", "up", "down", "frames", "up/token", "down/token", "of a token")
    said = None
    if floor and total:
        source = "the model's file" if analysis.model is not None else "the capture itself"
        said = (
            f"The textbook floor is {bytes_text(floor)}: a 16-bit hidden state once over each "
            f"boundary between devices, by {source}. This run moves {bytes_text(total)} a token, "
            f"{number_text(total / floor)} times that."
        )
    notes = analysis.model.notes if analysis.model is not None else []
    return html.section(
        f"{prefix}roles",
        "Bytes by role",
        None if said is None else element("p", said),
        html.paragraphs(notes),
        html.figure(f"{prefix}role", lambda width: role_figure(analysis, floor, width)),
        html.table("Bytes by role", head, rows),
        level=level,
    )


def course(run: RunReport, prefix: str, level: int) -> Markup:
    """The run over its time: phases and throughput, requests."""
    whole, working = run.evidence.whole, run.evidence.working
    parts = [_timeline(run, whole, f"{prefix}whole", "The whole run")]
    span = working.used * working.width_ns
    if span and span < _OWN_TIMELINE * whole.used * whole.width_ns:
        parts.append(_timeline(run, working, f"{prefix}working", "From the first request on"))
    return html.section(
        f"{prefix}timeline", "Over time", *parts, _phases(run), _requests(run), level=level
    )


def _timeline(run: RunReport, timeline: Timeline, name: str, title: str) -> Markup | None:
    if timeline.start_ns is None:
        return None
    first = (run.facts.health.first_ns or 0) / 1e9
    start = timeline.start_ns / 1e9 - first
    width = timeline.width_ns / 1e9
    until = start + timeline.used * width
    spans = []
    for r in run.analysis.requests[:_MOST_REQUESTS]:
        prompt = r.start_s + (r.prefill_s or 0.0)
        if start <= r.start_s < until:
            spans.append((r.start_s, prompt, min(until, prompt + (r.decode_s or 0.0))))
    shown = TimelineData(
        start, width, timeline.shares(), timeline.rates(UP), timeline.rates(DOWN), spans
    )

    def draw(pixels: int) -> Figure:
        return timeline_figure(shown, title, pixels)

    return html.figure(name, draw)


def _phases(run: RunReport) -> Markup:
    rows = [
        (
            name,
            html.size(p.bytes_up),
            html.size(p.bytes_down),
            html.count(p.frames),
            html.count(p.round_trips),
            html.count(p.passes),
            html.count(p.rows),
            html.seconds(p.duration_s),
        )
        for name, p in run.analysis.phases.items()
        if p.frames or p.passes
    ]
    head = ("phase", "up", "down", "frames", "round trips", "passes", "rows", "time")
    return html.table("Phases of the run", head, rows)


def _requests(run: RunReport) -> Markup | None:
    found = run.analysis.requests
    if not found:
        return None
    rows = []
    for r in found[:_MOST_REQUESTS]:
        decoded = max(0, r.generated_tokens - 1)
        each = r.decode_s * 1e3 / decoded if r.decode_s and decoded else None
        drafted = f"{r.accepted_tokens or 0:,} of {r.draft_tokens:,}" if r.draft_tokens else "-"
        rows.append(
            (
                f"{r.number}{' (inferred)' if r.inferred else ''}",
                html.Cell(f"{r.start_s:.3f} s", r.start_s),
                html.count(r.prompt_tokens),
                html.seconds(r.prefill_s),
                html.count(r.generated_tokens),
                html.seconds(r.decode_s),
                html.ms(each),
                drafted,
            )
        )
    head = ("request", "start", "prompt", "prefill", "tokens", "decode", "a token", "accepted")
    return html.table("Requests", head, rows, left_off=max(0, len(found) - _MOST_REQUESTS))

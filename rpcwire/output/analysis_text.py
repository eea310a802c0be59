"""An analysis as text for a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.pricing import LOCAL_RTT_MS
from rpcwire.output.diagnose_text import finding_lines
from rpcwire.output.model_text import model_section
from rpcwire.output.summary import summary
from rpcwire.output.terminal import Style, paragraph, printable, table
from rpcwire.output.units import (
    DASH,
    bytes_text,
    count_text,
    ms_text,
    number_text,
    seconds_text,
    share_text,
)

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis

_MOST_REQUESTS = 12
_MOST_NOTES = 12
_MOST_CONNECTIONS = 12


def analysis_text(analysis: Analysis, style: Style, *, verbose: int = 0) -> str:
    """The whole report, without a line feed at the end.

    Args:
        analysis: what to show.
        style: of the terminal.
        verbose: 1 adds commands, connections and all rows; 2 every connection.
    """
    parts = ["\n".join(paragraph(p) for p in summary(analysis))]
    if analysis.connections:
        parts += [_phases(analysis, style), _roles(analysis, style, verbose)]
        if len(analysis.workers) > 1 or verbose:
            parts.append(_workers(analysis, style))
        if analysis.requests:
            parts.append(_requests(analysis, style, verbose))
        if verbose:
            parts += [_commands(analysis, style), _connections(analysis, style, verbose)]
    if analysis.model is not None:
        parts.append(model_section(analysis, analysis.model, style))
    parts.append(_capture(analysis, style, verbose))
    worst = finding_lines(analysis.findings, style)
    if worst:
        rtt = analysis.per_token.rtt_ms
        near = (
            ", priced on 1 Gbit Ethernet, 0.3 ms" if rtt is not None and rtt < LOCAL_RTT_MS else ""
        )
        parts.append("\n".join([style.bold("FINDINGS") + near, *worst]))
    return "\n\n".join(p for p in parts if p)


def _phases(analysis: Analysis, style: Style) -> str:
    rows: list[tuple[str, ...]] = [
        (
            name,
            bytes_text(p.bytes_up),
            bytes_text(p.bytes_down),
            count_text(p.frames),
            count_text(p.round_trips),
            count_text(p.passes),
            count_text(p.rows),
            seconds_text(p.duration_s),
        )
        for name, p in analysis.phases.items()
        if p.frames or p.passes
    ]
    capture = analysis.capture
    if capture.undecoded_bytes:
        lost = (bytes_text(capture.undecoded_bytes_up), bytes_text(capture.undecoded_bytes_down))
        rows.append(("undecoded", *lost, *[DASH] * 5))
    head = ("PHASE", "up", "down", "frames", "round trips", "passes", "rows", "time")
    return table(head, rows, style) if rows else ""


def _roles(analysis: Analysis, style: Style, verbose: int) -> str:
    token = analysis.per_token
    per_token = (token.bytes_up or 0) + (token.bytes_down or 0)
    rows = []
    hidden = 0
    for r in sorted(analysis.roles, key=lambda r: -(r.bytes_per_token or 0)):
        total = r.bytes_up + r.bytes_down
        if (
            not verbose
            and total < 0.001 * analysis.capture.stream_bytes
            and ((r.bytes_per_token or 0) < 0.005 * per_token)
        ):
            hidden += 1
            continue
        rows.append(
            (
                r.role,
                bytes_text(r.bytes_up),
                bytes_text(r.bytes_down),
                count_text(r.frames),
                bytes_text(r.bytes_up_per_token),
                bytes_text(r.bytes_down_per_token),
                share_text(r.bytes_per_token or 0, per_token),
            )
        )
    if not rows:
        return ""
    head = ("ROLE", "up", "down", "frames", "up/token", "down/token", "of a token")
    text = table(head, rows, style)
    if hidden:
        text += "\n" + style.dim(f"and {hidden} smaller (-v shows all)")
    return text


def _workers(analysis: Analysis, style: Style) -> str:
    rows = [
        (
            w.server,
            bytes_text(w.bytes_up),
            bytes_text(w.bytes_down),
            bytes_text(w.bytes_up_per_token),
            bytes_text(w.bytes_down_per_token),
            ms_text(w.wait_ms_per_token),
            ms_text(w.rtt_ms),
        )
        for w in analysis.workers
    ]
    head = ("WORKER", "up", "down", "up/token", "down/token", "wait/token", "RTT")
    return table(head, rows, style)


def _requests(analysis: Analysis, style: Style, verbose: int) -> str:
    rows = []
    shown = analysis.requests if verbose else analysis.requests[:_MOST_REQUESTS]
    for r in shown:
        decoded = max(0, r.generated_tokens - 1)
        each = r.decode_s * 1e3 / decoded if r.decode_s and decoded else None
        drafted = DASH
        if r.draft_tokens:
            drafted = f"{r.accepted_tokens or 0:,}/{r.draft_tokens:,}"
        rows.append(
            (
                f"{r.number}{'*' if r.inferred else ''}",
                f"{r.start_s:.3f} s",
                count_text(r.prompt_tokens),
                seconds_text(r.prefill_s),
                _rate(r.prompt_tokens, r.prefill_s),
                count_text(r.generated_tokens),
                seconds_text(r.decode_s),
                ms_text(each),
                drafted,
            )
        )
    head = ("REQUEST", "start", "prompt", "prefill", "t/s", "tokens", "decode", "each", "accepted")
    text = table(head, rows, style)
    if len(shown) < len(analysis.requests):
        text += "\n" + style.dim(f"and {len(analysis.requests) - len(shown):,} more (-v shows all)")
    return text


def _rate(tokens: int, seconds: float | None) -> str:
    return number_text(tokens / seconds) if seconds and tokens else DASH


def _commands(analysis: Analysis, style: Style) -> str:
    rows = []
    for c in analysis.commands:
        times = c.response_ms or {}
        rows.append(
            (
                c.command,
                count_text(c.count),
                bytes_text(c.bytes_up),
                bytes_text(c.bytes_down),
                ms_text(times.get("median")),
                ms_text(times.get("p95")),
                ms_text(times.get("max")),
            )
        )
    head = ("COMMAND", "requests", "up", "down", "median", "p95", "max")
    return table(head, rows, style)


def _connections(analysis: Analysis, style: Style, verbose: int) -> str:
    ranked = sorted(analysis.connections, key=lambda c: -(c.bytes_up + c.bytes_down))
    shown = ranked if verbose > 1 else ranked[:_MOST_CONNECTIONS]
    rows = [
        (
            str(c.id),
            f"{c.client} > {c.server}",
            f"{c.protocol}{'' if c.protocol_source == 'hello' else '?'}",
            count_text(c.requests),
            bytes_text(c.bytes_up),
            bytes_text(c.bytes_down),
        )
        for c in sorted(shown, key=lambda c: c.id)
    ]
    text = table(("#", "CONNECTION", "protocol", "requests", "up", "down"), rows, style, left=2)
    if rest := ranked[len(shown) :]:
        size = bytes_text(sum(c.bytes_up + c.bytes_down for c in rest))
        text += "\n" + style.dim(f"and {len(rest):,} smaller, {size} in all (-vv shows all)")
    return text


def _capture(analysis: Analysis, style: Style, verbose: int) -> str:
    c = analysis.capture
    lost = [
        f"{bytes_text(count)} {what}"
        for count, what in (
            (c.missing_bytes, "missing"),
            (c.truncated_bytes, "left out or cut off"),
            (c.undecoded_bytes, "undecoded"),
        )
        if count
    ]
    text = (
        f"{c.packets:,} packets, {bytes_text(c.wire_bytes)} on the wire, "
        f"{bytes_text(c.stream_bytes) if c.stream_bytes else 'none'} of it RPC "
        f"{'in the window' if c.narrowed else 'streams'} ({', '.join(lost) or 'nothing missing'})"
    )
    if c.other_connections and analysis.connections:
        text += f"; {c.other_connections:,} other connections, {bytes_text(c.other_bytes)}"
    lines = [style.bold("CAPTURE") + "  " + paragraph(text, " " * 9).lstrip()]
    shown = c.notes if verbose else c.notes[:_MOST_NOTES]
    lines += [style.warn(paragraph(printable(note), "  ", "- ")) for note in shown]
    if len(shown) < len(c.notes):
        lines.append(style.dim(f"and {len(c.notes) - len(shown)} more notes (-v shows all)"))
    return "\n".join(lines)

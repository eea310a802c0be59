"""The section that sets two runs beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.output.markup import Markup, element, joined
from rpcwire.output.plot_bars import change_figure
from rpcwire.output.summary import ROLE_WORDS
from rpcwire.output.units import ms_text, number_text
from rpcwire.report import html

if TYPE_CHECKING:
    from rpcwire.compare import Comparison
    from rpcwire.compare.comparison import Side
    from rpcwire.findings import Finding
    from rpcwire.findings.speculation import Speculation

_MOST_CHANGES = 60
_NOTHING = 1e-6  #: ms


def comparison(found: Comparison, level: int) -> Markup:
    """What grew and what shrank from A to B, and what explains it."""
    return html.section(
        "comparison",
        "A and B",
        html.paragraphs(_verdict(found)),
        _ends(found),
        _sides(found.a, found.b),
        html.figure("changes", lambda width: change_figure(found, width)),
        _changes(found),
        _only("A", found.only_a),
        _only("B", found.only_b),
        html.paragraphs(found.notes),
        level=level,
    )


def _verdict(found: Comparison) -> list[str]:
    a, b, more = found.a, found.b, found.ms_more
    lines = [f"A is {a.name}, B is {b.name}."]
    if more is not None and a.ms is not None and b.ms is not None:
        factor = a.ms / b.ms if b.ms else 0.0
        lines.append(
            f"A token takes {ms_text(a.ms)} in A and {ms_text(b.ms)} in B: {ms_text(abs(more))} "
            f"{'more' if more > 0 else 'less'} ({number_text(factor)} times the speed)."
        )
    return lines


def _ends(found: Comparison) -> Markup | None:
    ends = found.ends
    if ends is None or ends.ms is None or ends.client_ms is None:
        return None
    return element(
        "p",
        f"One run, captured at both ends: a token takes {ms_text(ends.ms)}, of it "
        f"{ms_text(ends.worker_ms)} worker, {ms_text(ends.wire_ms)} wire and "
        f"{ms_text(ends.client_ms)} client; the wire's round trip is "
        f"{ms_text(ends.rtt_median_ms)} (least {ms_text(ends.rtt_min_ms)}).",
    )


def _sides(a: Side, b: Side) -> Markup:
    rows: list[tuple[html.Entry, ...]] = [
        ("generated tokens", html.count(a.tokens), html.count(b.tokens)),
        ("a token", html.ms(a.ms), html.ms(b.ms)),
        ("client a token", html.ms(a.client_ms), html.ms(b.client_ms)),
        ("network a token", html.ms(a.network_ms), html.ms(b.network_ms)),
        ("workers a token", html.ms(a.server_ms), html.ms(b.server_ms)),
        ("up a token", html.size(a.bytes_up), html.size(b.bytes_up)),
        ("down a token", html.size(a.bytes_down), html.size(b.bytes_down)),
        ("round trips a token", html.number(a.round_trips), html.number(b.round_trips)),
        ("a prompt token", html.ms(a.prompt_ms), html.ms(b.prompt_ms)),
        ("load", html.size(a.load_bytes), html.size(b.load_bytes)),
    ]
    accounts = (a.speculation, b.speculation)
    if any(accounts):
        cells = [_rounds(account) for account in accounts]
        rows += zip(("a round", "tokens a round", "acceptance"), *cells, strict=True)
    return html.table("Both runs", ("what", "A", "B"), rows)


def _rounds(account: Speculation | None) -> tuple[html.Cell, html.Cell, html.Cell]:
    if account is None:
        return html.ms(None), html.number(None), html.share(None)
    return (
        html.ms(account.round_ms),
        html.number(account.tokens_per_round),
        html.share(account.acceptance),
    )


def _changes(found: Comparison) -> Markup:
    changes = [c for c in found.changes if abs(c.ms) > _NOTHING]
    rows = [
        (
            html.role(c.role, ROLE_WORDS),
            c.phase or "-",
            html.size(c.bytes_a),
            html.size(c.bytes_b),
            html.number(c.trips_a),
            html.number(c.trips_b),
            html.Cell(f"{c.ms:+.3g} ms", c.ms),
            html.share(c.explains),
        )
        for c in changes[:_MOST_CHANGES]
    ]
    head = ("what", "phase", "A", "B", "trips A", "trips B", "B − A", "of the difference")
    left = max(0, len(changes) - _MOST_CHANGES)
    return html.table("Differences per token", head, rows, left_off=left)


def _only(name: str, found: list[Finding]) -> Markup | None:
    if not found:
        return None
    lines = [element("li", element("strong", f.id), f": {f.title}.") for f in found]
    return joined(element("p", f"Found in {name} only:"), element("ul", *lines))

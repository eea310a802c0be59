"""A comparison as text for a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.compare.comparison import EQUAL
from rpcwire.output.summary import ROLE_WORDS
from rpcwire.output.terminal import Style, paragraph, printable, table
from rpcwire.output.units import DASH, bytes_text, ms_text, number_text

if TYPE_CHECKING:
    from rpcwire.compare.comparison import Change, Comparison, Side
    from rpcwire.compare.ends import BothEnds
    from rpcwire.findings.speculation import Speculation

_MOST = 12
_WORDS = {
    **ROLE_WORDS,
    "client": "the client itself",
    "workers": "workers computing",
    "network": "network, not told apart",
}


def compare_text(comparison: Comparison, style: Style, *, verbose: int = 0) -> str:
    """The whole report, without a line feed at the end.

    Args:
        comparison: what to show.
        style: of the terminal.
        verbose: 1 shows every phase and role.
    """
    a, b = comparison.a, comparison.b
    parts = ["\n".join(paragraph(p) for p in _summary(comparison))]
    one_run = comparison.ends is not None
    if comparison.ends is not None:
        parts.append(_ends(comparison.ends, style))
    if verbose or not one_run:  # of one run nothing grew: what differs is where it was looked at
        parts.append(_sides(a, b, style))
        if a.tokens and b.tokens:
            parts.append(_changes(comparison, style, verbose))
    for side, name, findings in ((a, "A", comparison.only_a), (b, "B", comparison.only_b)):
        if findings:
            lines = [style.bold(f"ONLY {name}") + f"  {printable(side.name)}"]
            lines += [paragraph(printable(f"{f.id}: {f.title}"), "  ", "- ") for f in findings]
            parts.append("\n".join(lines))
    if comparison.notes:
        parts.append("\n".join(paragraph(printable(n), "  ", "- ") for n in comparison.notes))
    return "\n\n".join(p for p in parts if p)


def _summary(comparison: Comparison) -> list[str]:
    a, b, more = comparison.a, comparison.b, comparison.ms_more
    lines = [f"A is {printable(a.name)}, B is {printable(b.name)}."]
    if more is None or a.ms is None or b.ms is None or comparison.ends is not None:
        return lines
    if abs(more) < EQUAL * a.ms:
        lines.append(f"A token takes {ms_text(a.ms)} in both.")
        return lines
    factor = a.ms / b.ms if b.ms else 0.0
    word = "more" if more > 0 else "less"
    lines.append(
        f"A token takes {ms_text(a.ms)} in A and {ms_text(b.ms)} in B: {ms_text(abs(more))} {word} "
        f"({number_text(factor)} times the speed)."
    )
    largest = [c for c in comparison.changes if c.ms * more > 0 and c.explains is not None][:3]
    if largest:
        named = ", ".join(f"{_name(c)} {c.ms:+.3g} ms" for c in largest)
        lines.append(f"Of the difference: {named}.")
    return lines


def _name(change: Change) -> str:
    what = _WORDS.get(change.role, change.role)
    return f"{what} ({change.phase})" if change.phase else what


def _ends(ends: BothEnds, style: Style) -> str:
    lines = [
        style.bold("ONE RUN, BOTH ENDS")
        + f"  {ends.answers:,} answers in {ends.connections:,} connections matched by their frames"
    ]
    if ends.ms is not None and ends.client_ms is not None:
        lines.append(
            paragraph(
                f"A token takes {ms_text(ends.ms)}: {ms_text(ends.worker_ms)} worker, "
                f"{ms_text(ends.wire_ms)} wire, {ms_text(ends.client_ms)} client. The wire's "
                f"round trip is {ms_text(ends.rtt_median_ms)} (least {ms_text(ends.rtt_min_ms)}).",
                "  ",
            )
        )
    lines.append(
        paragraph(
            f"The worker side's clock is {abs(ends.clock_offset_ms):.3g} ms "
            f"{'ahead' if ends.clock_offset_ms >= 0 else 'behind'}, if both ways take the same.",
            "  ",
        )
    )
    return "\n".join(lines)


def _sides(a: Side, b: Side, style: Style) -> str:
    rows: list[tuple[str, str, str]] = [
        ("generated tokens", f"{a.tokens:,}", f"{b.tokens:,}"),
        ("ms a token", number_text(a.ms), number_text(b.ms)),
        ("  client", number_text(a.client_ms), number_text(b.client_ms)),
        ("  network", number_text(a.network_ms), number_text(b.network_ms)),
        ("  workers", number_text(a.server_ms), number_text(b.server_ms)),
        ("up a token", bytes_text(a.bytes_up), bytes_text(b.bytes_up)),
        ("down a token", bytes_text(a.bytes_down), bytes_text(b.bytes_down)),
        ("round trips a token", number_text(a.round_trips), number_text(b.round_trips)),
        ("ms a prompt token", number_text(a.prompt_ms), number_text(b.prompt_ms)),
        ("load", bytes_text(a.load_bytes), bytes_text(b.load_bytes)),
    ]
    accounts = [side.speculation for side in (a, b)]
    if any(account is not None for account in accounts):
        cells = [_rounds(account) for account in accounts]
        labels = ("rounds", "ms a round", "tokens a round", "acceptance")
        rows += [(name, x, y) for name, x, y in zip(labels, *cells, strict=True)]
    return table(("", "A", "B"), rows, style)


def _rounds(account: Speculation | None) -> tuple[str, str, str, str]:
    if account is None:
        return (DASH,) * 4
    return (
        f"{account.rounds:,}",
        number_text(account.round_ms),
        number_text(account.tokens_per_round),
        f"{account.acceptance:.0%}",
    )


def _changes(comparison: Comparison, style: Style, verbose: int) -> str:
    shown = [c for c in comparison.changes if verbose or abs(c.ms) > 1e-6]
    if not verbose:
        shown = shown[:_MOST]
    if not shown:
        return ""
    rows = [
        (
            c.role,
            c.phase,
            bytes_text(c.bytes_a),
            bytes_text(c.bytes_b),
            number_text(c.trips_a) if c.trips_a else DASH,
            number_text(c.trips_b) if c.trips_b else DASH,
            f"{c.ms:+.3g}",
            DASH if c.explains is None else f"{c.explains:.0%}",
        )
        for c in shown
    ]
    head = ("PER TOKEN", "phase", "A", "B", "trips A", "trips B", "ms", "of it")
    text = table(head, rows, style, left=2)
    left = len(comparison.changes) - len(shown)
    return text + ("\n" + style.dim(f"and {left} smaller (-v shows all)") if left else "")

"""What speculative decoding costs and gains on a link: rounds against plain tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rpcwire.findings.gather.tallies import TOKENS, Cell

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts

#: Plain passes that are enough to measure a plain token.
_ENOUGH = 5
_MODELLED, _OTHER = "modelled", "measured in the other run"
#: Requests at once from which rounds are shared.
_SEVERAL = 1.2
#: Acceptance below which most of what is drafted is lost.
_HALF = 0.5
#: Gains and losses smaller than this are none.
_MARGIN = 0.05
#: Roles whose bytes grow with what is verified, not with what is drafted.
_PER_ROW = (
    "embedding_in", "unused_input", "hidden_in", "hidden_out", "positions", "kv_indices",
    "kv_mask", "output_ids", "logits", "expert_ids", "expert_out",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of a round that a plain token does not have; `ms` per round."""

    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Milliseconds of a round and of a plain token, tokens and drafts a round.

    Attributes:
        together: requests that share a round. modelled: whether the plain token was not measured.
    """

    round_ms: float
    plain_ms: float
    per_round: float
    drafts: float
    together: float
    modelled: bool

    @property
    def speedup(self) -> float:
        """Tokens a second against without speculation."""
        return self.plain_ms * self.per_round / self.round_ms


@dataclass(frozen=True, slots=True)
class Speculation:
    """The account of a speculative run.

    Attributes:
        rounds: verify passes. drafts_per_round, tokens_per_round: drafted and returned.
        acceptance: kept of what was drafted.
        round_ms: time of a round. plain_ms: time of a token without speculation.
        plain_source: "measured" (plain tokens of the same run) or "modelled" (one row of a verify
            pass, its graph reused, one wait a worker: at most, since the workers' time is that of
            all rows of the pass).
        break_even_tokens, break_even_acceptance: what a round must return, and the acceptance
            that gives it; above 1 it cannot pay.
        speedup: tokens a second against without; below 1 it costs.
        causes: parts of a round, the largest first.
        verdict: one sentence. advice: what would make it worth it.
    """

    rounds: int
    drafts_per_round: float
    tokens_per_round: float
    acceptance: float
    round_ms: float
    plain_ms: float
    plain_source: str
    break_even_tokens: float
    break_even_acceptance: float
    speedup: float
    causes: tuple[Cause, ...]
    verdict: str
    advice: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        return {
            "rounds": self.rounds,
            "drafts_per_round": self.drafts_per_round,
            "tokens_per_round": self.tokens_per_round,
            "acceptance": self.acceptance,
            "round_ms": self.round_ms,
            "plain_ms": self.plain_ms,
            "plain_source": self.plain_source,
            "break_even_tokens": self.break_even_tokens,
            "break_even_acceptance": self.break_even_acceptance,
            "speedup": self.speedup,
            "causes": [{"name": c.name, "ms_per_round": c.ms} for c in self.causes[:3]],
            "verdict": self.verdict,
            "advice": list(self.advice),
        }


def speculation(facts: Facts, plain_ms: float | None = None) -> Speculation | None:
    """The account of a run, on the link that facts are priced on; None without speculation.

    Args:
        facts: of the run.
        plain_ms: time of a token without speculation on that link, if it was measured elsewhere.
    """
    rounds, token_ms = facts.rounds, facts.token_ms
    if not rounds or token_ms is None or not facts.drafted:
        return None
    plain = _plain(facts) if plain_ms is None else (plain_ms, _OTHER)
    if plain is None:
        return None
    plain_ms, source = plain
    together = _together(facts)
    if source != _OTHER:
        plain_ms /= together
    per_round = facts.accepted / rounds + together
    plain_passes = facts.analysis.phases["decode"].rows
    total = token_ms * facts.tokens / facts.at_once
    round_ms = max(total - plain_passes * plain_ms, 0.0) / rounds
    if round_ms <= 0:
        return None
    drafts = facts.drafted / rounds
    even = round_ms / plain_ms
    speedup = plain_ms * per_round / round_ms
    causes = _causes(facts, rounds, plain_ms)
    acceptance = facts.accepted / facts.drafted
    modelled = source == _MODELLED
    even_acceptance = (even - together) / drafts
    rates = Rates(round_ms, plain_ms, per_round, drafts, together, modelled)
    return Speculation(
        rounds=rounds,
        drafts_per_round=drafts,
        tokens_per_round=per_round,
        acceptance=acceptance,
        round_ms=round_ms,
        plain_ms=plain_ms,
        plain_source=source,
        break_even_tokens=even,
        break_even_acceptance=even_acceptance,
        speedup=speedup,
        causes=causes,
        verdict=_verdict(speedup, even_acceptance, acceptance),
        advice=tuple(_advice(facts, rates, causes)),
    )


# -- a token without speculation -----------------------------------------------------------------


def _together(facts: Facts) -> float:
    """Requests whose drafts a verify pass holds, on average."""
    verify = facts.analysis.phases["verify"]
    if facts.at_once < _SEVERAL:
        return 1.0
    return max(1.0, (verify.rows - facts.drafted) / verify.passes)


def _plain(facts: Facts) -> tuple[float, str] | None:
    """Milliseconds of a pass of plain tokens, and how that is known."""
    decode = facts.analysis.phases["decode"]
    periods = facts.evidence.places.periods["decode"]
    local = facts.link is not facts.recorded or not facts.recorded.recorded
    if decode.passes >= _ENOUGH and periods.count >= _ENOUGH and decode.rows == decode.passes:
        ms = periods.quantile(0.5) / 1e6
        if local:
            cell = facts.tallies.sum(phases=("decode",))
            ms += facts.link.ms(cell.bytes / decode.passes, cell.trips / decode.passes)
        return ms, "measured"
    places = facts.evidence.places
    verify = facts.analysis.phases["verify"]
    if not places.passes or not verify.rows or facts.client_ms is None:
        return None
    waits = sum(s.waits for s in places.servers.values()) / places.passes
    waited = sum(s.waited_ns for s in places.servers.values()) / 1e6 / places.passes
    computed = max(0.0, waited - waits * (facts.recorded_rtt_ms or 0.0)) * facts.steady
    draft = facts.analysis.phases["draft"]
    client = facts.client_ms * facts.tokens / facts.at_once
    client /= max(1, verify.passes + draft.passes)
    rows = facts.tallies.sum(phases=("verify",), roles=_PER_ROW)
    fixed = facts.tallies.sum(phases=("verify",), roles=("kv_rotation", "recurrent_ids"))
    moved = rows.bytes / verify.rows + fixed.bytes / verify.passes
    return computed + client + facts.link.ms(moved, max(1.0, waits)), _MODELLED


# -- what a round has besides --------------------------------------------------------------------


def _causes(facts: Facts, rounds: int, plain_ms: float) -> tuple[Cause, ...]:
    def cost(cell: Cell, trips: bool = True) -> float:
        return facts.link.ms(cell.bytes, cell.trips if trips else 0) / rounds

    spent = facts.tallies.sum
    graphs = facts.evidence.graphs
    tokens = facts.tokens / facts.at_once
    logits = spent(phases=("verify",), roles=("logits",))
    extra = logits.bytes * (1 - rounds / max(rounds, facts.analysis.phases["verify"].rows))
    draft = facts.analysis.phases["draft"]
    passes = rounds + draft.passes + facts.analysis.phases["decode"].passes
    drafted_share = draft.passes / passes if passes else 0.0
    draft_only = ("draft",)
    draft_inputs = spent(
        phases=draft_only, roles=("embedding_in", "positions", "kv_indices", "output_ids")
    )
    # What plain tokens between the rounds took is no part of a round.
    plain = facts.analysis.phases["decode"].passes
    verified = facts.analysis.phases["verify"].passes
    target = plain + verified
    computing = (facts.server_ms or 0.0) * tokens * (verified + draft.passes)
    computing /= max(1, target + draft.passes)
    found = [
        Cause("graph-resent", facts.link.ms(graphs.resent_bytes + graphs.old_full) / rounds),
        Cause("draft-round-trips", facts.link.ms(0, spent(phases=draft_only).trips) / rounds),
        Cause("verify-logits", facts.link.ms(extra) / rounds),
        Cause(
            "hidden states for the draft head",
            facts.link.ms(spent(roles=("draft_hidden",), moments=(TOKENS,)).bytes) / rounds,
        ),
        Cause("kv-rotation", cost(spent(roles=("kv_rotation",), moments=(TOKENS,)))),
        Cause(
            "recurrent-state-transfer",
            cost(spent(roles=("recurrent_state", "kv_state"), moments=(TOKENS,))),
        ),
        Cause("attention masks", cost(spent(roles=("kv_mask",), moments=(TOKENS,)))),
        Cause("alloc-query-storm", cost(spent(roles=("alloc_query",), moments=(TOKENS,)))),
        Cause("inputs of the draft passes", cost(draft_inputs)),
        Cause("the client's own time", drafted_share * (facts.client_ms or 0.0) * tokens / rounds),
        Cause(
            "workers computing",
            max(0.0, computing / rounds - plain_ms),
        ),
    ]
    return tuple(sorted((c for c in found if c.ms > 0), key=lambda c: -c.ms))


def _verdict(speedup: float, even: float, acceptance: float) -> str:
    kept = f"{acceptance:.0%} of the drafts are kept"
    needs = f"it breaks even at {even:.0%}"
    if even > 1:
        needs = "it cannot pay here even if every draft were kept"
    if speedup >= 1 + _MARGIN:
        return f"Worth it on this link: {speedup:.2f} times the speed without; {kept}, {needs}."
    if speedup > 1 - _MARGIN:
        return f"Neither gain nor loss on this link; {kept}, {needs}."
    return f"Not worth it on this link: {speedup:.2f} times the speed without; {kept}, {needs}."


def _advice(facts: Facts, rates: Rates, causes: tuple[Cause, ...]) -> list[str]:
    """What would make it worth it (or more so): each saving, and the link that would do."""
    lines = []
    round_ms, plain_ms, drafts = rates.round_ms, rates.plain_ms, rates.drafts
    by_name = {c.name: c.ms for c in causes}
    apart = " (draft on a device of its own)" if facts.analysis.phases["draft"].passes else ""
    for name, what in (
        ("graph-resent", f"if no graph were resent{apart}"),
        ("draft-round-trips", "if drafting waited for nothing (draft on the client)"),
        ("recurrent-state-transfer", "if no state were moved"),
        ("kv-rotation", "with an F16 KV cache"),
        ("verify-logits", "with the output layer on the client"),
    ):
        saved = by_name.get(name, 0.0)
        if saved < 0.02 * round_ms:
            continue
        left = max(round_ms - saved, 1e-9)
        less = facts.link.ms(
            facts.tallies.sum(phases=("verify",), roles=("kv_rotation",)).bytes / facts.rounds
        )
        plain = max(plain_ms - less, 1e-9) if name == "kv-rotation" else plain_ms
        even = (left / plain - rates.together) / drafts
        pays = f"break-even at {even:.0%} acceptance" if even <= 1 else "still none would pay"
        lines.append(f"{what}: {round_ms:.3g} -> {left:.3g} ms a round, {pays}")
    if rates.speedup < 1 + _MARGIN:
        lines += _link_that_would_do(facts, rates)
        if drafts > 1.5 and facts.accepted < _HALF * facts.drafted:
            lines.append("fewer drafts a round (--spec-draft-n-max) where acceptance is low")
    if rates.modelled and rates.speedup > 1 - _MARGIN:
        lines.append(
            "the plain token is an upper bound: record the run with --spec-type none, and "
            "rpcwire compare both"
        )
    return lines


def _link_that_would_do(facts: Facts, rates: Rates) -> list[str]:
    none = ["no shorter round-trip time alone would make it pay at this acceptance"]
    if rates.per_round <= (1 + _MARGIN) * rates.together:
        return none  # a round returns what a plain token does
    plain = facts.tallies.sum(phases=("decode",))
    trips = (facts.generation.trips - plain.trips) / facts.rounds
    plain_trips = 1 / rates.together
    a = rates.per_round * (rates.plain_ms - facts.link.rtt_ms * plain_trips)
    b = rates.round_ms - facts.link.rtt_ms * trips
    slope = trips - rates.per_round * plain_trips
    if slope <= 0 or a <= b:
        return none
    most = (a - b) / slope
    return [f"with a round-trip time below {most:.2g} ms it would pay at this acceptance"]

"""The whole prediction: counts, and what they come to on each link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcwire.links.catalogue import Link
from rpcwire.links.gpus import efficiency
from rpcwire.links.transfer import Leg, LinkTime, legs, link_time
from rpcwire.predict.hardware import Compute, Hardware, compute_time
from rpcwire.predict.load import Load, predict_load
from rpcwire.predict.run import Run, predict_run
from rpcwire.predict.scenario import Assumption, Scenario
from rpcwire.predict.wire import Exchange

#: Share of a token's time that the network may take.
ENOUGH, LIMITS = 0.10, 0.35
#: Accepted part of the drafted tokens where nothing else is known: prose, between, code
#: (0.40-0.50 and 0.72-0.90 reported for Qwen3.8-27B, field notes).
ACCEPTANCE = (0.45, 0.60, 0.80)


@dataclass(frozen=True, slots=True)
class LinkResult:
    """What one link makes of the counts; times in milliseconds, three values are low, mid, high.

    Attributes:
        link: which. network_ms: per generated token. latency_ms: its part that is round trips.
        total_ms: per token with computing, or None. tokens_per_s: or None.
        ceiling: tokens/s that the network alone would allow. share: of the network, or None.
        prefill_ms: network per prompt token. prefill_tokens_per_s: where computing is known.
        cold_s, cached_s: load. load_limited_by: what most of it is.
        verdict, limited_by: in words. break_even: acceptance from which drafting pays, or None.
    """

    link: Link
    network_ms: float
    latency_ms: float
    total_ms: float | None
    tokens_per_s: tuple[float, float, float] | None
    ceiling: float
    share: float | None
    prefill_ms: float
    prefill_tokens_per_s: float | None
    cold_s: float
    cached_s: float | None
    load_limited_by: str
    verdict: str
    limited_by: str
    break_even: float | None


@dataclass(slots=True)
class Prediction:
    """A scenario, its run, and the links it was put on.

    Attributes:
        scenario, run, load, hardware: what was worked out.
        compute: of a plain token, or None. acceptance: low, mid, high; tokens_per_round: mid.
        links: one result each. assumptions, warnings: in words.
        listed: all graphs are of families whose graphs were compared with recorded runs.
    """

    scenario: Scenario
    run: Run
    load: Load
    hardware: Hardware
    compute: Compute | None
    acceptance: tuple[float, float, float]
    tokens_per_round: float
    links: list[LinkResult] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    listed: bool = True

    def roles(self, exchanges: Sequence[Exchange]) -> list[tuple[str, int, int, int]]:
        """Role, bytes up, bytes down and frames, largest first."""
        ups: Counter[str] = Counter()
        downs: Counter[str] = Counter()
        frames: Counter[str] = Counter()
        for exchange in exchanges:
            ups[exchange.role] += exchange.up
            downs[exchange.role] += exchange.down
            frames[exchange.role] += 2 if exchange.down else 1
        rows = [(role, ups[role], downs[role], frames[role]) for role in frames]
        return sorted(rows, key=lambda row: -(row[1] + row[2]))

    @property
    def floor_bytes_per_token(self) -> int:
        """The textbook's figure: 16-bit hidden states over each boundary, once."""
        return 2 * self.scenario.model.hidden_size * self.scenario.placement.boundaries()


def predict(
    scenario: Scenario,
    hardware: Hardware,
    links: Sequence[Link],
    acceptance: float | None = None,
) -> Prediction:
    """Predict a scenario on links.

    Args:
        scenario: what runs.
        hardware: on what.
        links: over what, one result each.
        acceptance: accepted part of drafted tokens, 0 to 1.
    """
    run = predict_run(scenario)
    rates = (acceptance,) * 3 if acceptance is not None else ACCEPTANCE
    result = Prediction(
        scenario=scenario,
        run=run,
        load=predict_load(scenario),
        hardware=hardware,
        compute=compute_time(scenario, hardware),
        acceptance=(rates[0], rates[1], rates[2]),
        tokens_per_round=1 + rates[1] * scenario.drafts,
        assumptions=[*scenario.assumptions, *hardware.assumptions],
        warnings=list(scenario.warnings),
        listed=run.decode.listed,
    )
    if scenario.drafts:
        source = "flag" if acceptance is not None else "assumed"
        text = f"{rates[1]:.2f}" if acceptance is not None else "0.45–0.60–0.80"
        result.assumptions.append(Assumption("accepted part of the drafts", text, source))
        if result.compute is not None:
            row = "–".join(f"{part:g}" for part in efficiency().row)
            said = f"{row} of a plain token's computing"
            result.assumptions.append(Assumption("each further row verified", said, "assumed"))
    if not result.listed:
        result.assumptions.append(
            Assumption(
                "graphs",
                f"{scenario.model.arch} was not compared with a recording of this build: sizes of "
                "whole graphs may be off by some 10 %",
                "assumed",
            )
        )
    result.links = [_on_link(result, link) for link in links]
    return result


def _legs(exchanges: Sequence[Exchange]) -> list[Leg]:
    return legs((exchange.up, exchange.down, exchange.waits) for exchange in exchanges)


def _on_link(prediction: Prediction, link: Link) -> LinkResult:
    scenario, run = prediction.scenario, prediction.run
    plain = [link_time(_legs(run.decode.exchanges), *link.case(case)) for case in range(3)]
    network = plain
    per_round = (1.0, 1.0, 1.0)
    break_even = None
    compute = prediction.compute
    total = compute.ms if compute is not None else None
    if run.round is not None:
        network = [link_time(_legs(run.round.exchanges), *link.case(case)) for case in range(3)]
        a, b, c = (1 + rate * scenario.drafts for rate in prediction.acceptance)
        per_round = (a, b, c)
        total = _round_compute(prediction)
        break_even = _break_even(prediction, plain[1], network[1], total)
    net_ms = [1e3 * time.total / tokens for time, tokens in zip(network, per_round, strict=True)]
    speeds = total_ms = None
    share = None if net_ms[1] else 0.0  # nothing crosses: no machine could make it felt
    if total is not None:
        each = [
            part / tokens + net for part, tokens, net in zip(total, per_round, net_ms, strict=True)
        ]
        speeds = (1e3 / each[0], 1e3 / each[1], 1e3 / each[2])
        total_ms = each[1]
        share = net_ms[1] / total_ms if total_ms else 0.0
    latency_ms = 1e3 * network[1].latency / per_round[1]
    prefill = [e for one in run.prefill for e in one.exchanges]
    prefill += [e for one in run.prefill_heads for e in one.exchanges]
    rtt, rate = link.case(1)
    prompt = link_time(_legs(prefill), rtt, rate, idle=True).total + run.state_bytes / rate
    cold, cached = prediction.load.seconds(rtt, rate)
    return LinkResult(
        link=link,
        network_ms=net_ms[1],
        latency_ms=latency_ms,
        total_ms=total_ms,
        tokens_per_s=speeds,
        ceiling=1e3 / net_ms[1] if net_ms[1] else float("inf"),
        share=share,
        prefill_ms=1e3 * prompt / scenario.prompt,
        prefill_tokens_per_s=None,
        cold_s=cold,
        cached_s=cached,
        load_limited_by=prediction.load.limited_by(rate),
        verdict=verdict(share),
        limited_by=limited_by(net_ms[1], latency_ms, total_ms),
        break_even=break_even,
    )


def speed_at(prediction: Prediction, rtt: float, rate: float) -> float:
    """Tokens a second on a link of `rtt` seconds and `rate` bytes a second.

    Where computing is not known it is what the network alone would allow.
    """
    one = prediction.run.round
    exchanges = prediction.run.decode.exchanges if one is None else one.exchanges
    compute = prediction.compute.ms if prediction.compute is not None else None
    if one is not None:
        compute = _round_compute(prediction)
    seconds = link_time(_legs(exchanges), rtt, rate).total
    seconds += compute[1] / 1e3 if compute is not None else 0.0
    return prediction.tokens_per_round / seconds if seconds > 0 else float("inf")


def _round_compute(prediction: Prediction) -> tuple[float, float, float] | None:
    """Milliseconds of computing a round: the target over all drafted rows, the head's passes."""
    scenario, hardware = prediction.scenario, prediction.hardware
    verify = compute_time(scenario, hardware, scenario.drafts + 1)
    if verify is None:
        return None
    if scenario.draft is not None:
        head = None if hardware.baseline is not None else compute_time(scenario.draft, hardware)
    else:
        head = compute_time(scenario, hardware, 1, head=True)
    if head is None and scenario.draft is not None:
        part = scenario.draft.model.file_bytes / max(scenario.model.file_bytes, 1)
        a, b, c = verify.ms
        head = Compute((a * part, b * part, c * part), {})
    if head is None:
        part = 1.0 / max(scenario.model.layers, 1)  # a layer's share of a measured token
        a, b, c = verify.ms
        head = Compute((a * part, b * part, c * part), {})
    passes = scenario.drafts + 1
    slower = [1 + part * scenario.drafts for part in efficiency().row]
    low, mid, high = (
        a * factor + passes * b for a, b, factor in zip(verify.ms, head.ms, slower, strict=True)
    )
    return low, mid, high


def _break_even(
    prediction: Prediction,
    plain: LinkTime,
    drafted: LinkTime,
    compute: tuple[float, float, float] | None,
) -> float | None:
    """Acceptance at which a round gives as many tokens a second as plain decoding does."""
    one = 1e3 * plain.total
    whole = 1e3 * drafted.total
    if compute is not None and prediction.compute is not None:
        one += prediction.compute.ms[1]
        whole += compute[1]
    if one <= 0:
        return None
    return max((whole / one - 1) / prediction.scenario.drafts, 0.0)


def usual_link(results: Sequence[LinkResult]) -> LinkResult:
    """The link that stands for all where one must: 1 Gbit Ethernet, or else the first."""
    return next((result for result in results if result.link.name == "1gbe"), results[0])


def verdict(share: float | None) -> str:
    """Word for the network's share of a token."""
    if share is None:
        return "unknown"
    return "enough" if share <= ENOUGH else "limits" if share <= LIMITS else "not enough"


def limited_by(
    network: float, latency: float, total: float | None, computing: str = "memory bandwidth"
) -> str:
    """The largest part of a token's time; `computing` is the word for what is not network."""
    parts = {"latency": latency, "bandwidth": network - latency}
    if total is not None or not network:
        parts[computing] = (total or 0.0) - network + (0 if network else 1e-9)
    return max(parts, key=lambda key: parts[key])

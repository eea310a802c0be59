"""A prediction in words: verdict, table over links, what crosses, placement, assumptions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rpcwire.predict.prediction import LinkResult, Prediction, usual_link
from rpcwire.predict.recorded import Recorded
from rpcwire.predict.scenario import Assumption
from rpcwire.predict.wire import Exchange

WIDTH = 80
#: Links up to this number get a sentence each; more are grouped.
SENTENCES = 3
_WORDS = {
    "latency": "round trips",
    "bandwidth": "the link's bandwidth",
    "memory bandwidth": "memory bandwidth",
}


_VERDICTS = {"enough": "is enough", "limits": "limits you", "not enough": "is not enough"}
#: Part of a token's bytes from which a role is worth a sentence, and that sentence.
WORTH = 0.2
_ADVICE = {
    "logits": "Logits are {} of a token's bytes, {} on {}: an output layer on a device of the "
    "client (the last of -dev, or -ot '^output.weight=CPU') keeps them there.",
    "kv_rotation": "The quantised KV cache costs {} a token, {} on {}: rotation matrices, sent "
    "to each device in each step.",
    "graph": "Graphs are {} of a token's bytes, {} on {}: sent in full where a device computes "
    "two in turn, where it has several parts of one, or below protocol 3.5.",
}


def prediction_text(prediction: Prediction) -> str:
    """The whole report, at most 80 columns wide; warnings are the caller's."""
    parts = list(_verdicts(prediction))
    parts.append("\n".join(_link_table(prediction.links)))
    parts.append("\n".join(_crossing(prediction)))
    if prediction.run.round is not None:
        parts.append("\n".join(_drafting(prediction)))
    parts.append("\n".join(_placement(prediction)))
    parts.append("\n".join(_assumptions(prediction.assumptions)))
    return "\n\n".join(parts) + "\n"


def recorded_text(recorded: Recorded, results: Sequence[LinkResult]) -> str:
    """The report of a replayed run."""
    parts = [_wrap(_replayed(recorded, result)) for result in results[:SENTENCES]]
    parts.append("\n".join(_link_table(results)))
    lines = [f"What crossed per token ({recorded.token.round_trips:.3g} round trips):"]
    lines += [f"  {role:<18}{size:>14,.0f}" for role, size in recorded.roles if size >= 0.5]
    lines.append(f"  {'sum':<18}{recorded.token.up + recorded.token.down:>14,.0f}")
    parts.append("\n".join(lines))
    parts.append("\n".join(_assumptions(recorded.assumptions())))
    return "\n\n".join(parts) + "\n"


def _replayed(recorded: Recorded, result: LinkResult) -> str:
    title, net = result.link.title, result.network_ms
    if result.total_ms is None or result.tokens_per_s is None:
        return (
            f"Unknown whether {title} is enough: the network would take {_figure(net)} ms a token; "
            "how long the machines take cannot be told from this capture."
        )
    was = "" if recorded.token.ms is None else f", recorded: {_figure(recorded.token.ms)} ms"
    return (
        f"{title} {_VERDICTS[result.verdict]}: {_short(net)} of {_figure(result.total_ms)} ms per "
        f"token would be the network ({_figure(result.tokens_per_s[1])} tokens/s{was}). "
        f"The most of it is {_WORDS.get(result.limited_by, result.limited_by)}."
    )


def _wrap(text: str, first: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )


def _verdicts(prediction: Prediction) -> Iterator[str]:
    results = prediction.links
    if len(results) <= SENTENCES:
        for result in results:
            yield _wrap(sentence(prediction, result))
    else:
        for verdict, words in (
            ("enough", "Enough"),
            ("limits", "Limits"),
            ("not enough", "Not enough"),
        ):
            names = [result.link.name for result in results if result.verdict == verdict]
            if names:
                yield _wrap(f"{words}: {', '.join(names)}.")
        yield _wrap(sentence(prediction, usual_link(results)))
    yield from _advice(prediction)
    slots = prediction.run.slots
    if slots is not None:
        number = prediction.scenario.context.n_parallel
        yield _wrap(
            f"With all {number} slots busy a step carries {number} tokens: "
            f"{_bytes(slots.up)} up, {_bytes(slots.down)} down, "
            f"{_count(slots.round_trips, 'round trip')}."
        )


def _advice(prediction: Prediction) -> Iterator[str]:
    """What a placement or a flag costs on the usual link, where it is worth a sentence."""
    result = usual_link(prediction.links)
    rate = result.link.mbit_s[1] * 1e3 / 8  # bytes a millisecond
    roles = {role: up + down for role, up, down, _ in prediction.roles(_token(prediction))}
    tokens = prediction.tokens_per_round if prediction.run.round is not None else 1.0
    whole = sum(roles.values())
    for role, told in _ADVICE.items():
        size = roles.get(role, 0) / tokens
        if size and size * tokens >= WORTH * whole:
            yield _wrap(told.format(_bytes(size), f"{_short(size / rate)} ms", result.link.title))


def _token(prediction: Prediction) -> Sequence[Exchange]:
    one = prediction.run.round
    return prediction.run.decode.exchanges if one is None else one.exchanges


def sentence(prediction: Prediction, result: LinkResult) -> str:
    """The verdict on one link in words."""
    title = result.link.title
    net = f"{_figure(result.network_ms)} ms"
    if result.network_ms == 0:
        return f"{title} is enough: no worker takes part, so nothing crosses the network."
    if result.total_ms is None or result.tokens_per_s is None:
        text = (
            f"Unknown whether {title} is enough: the network takes {net} a token, so at most "
            f"{_figure(result.ceiling)} tokens/s, most of it {_WORDS[result.limited_by]}. "
            "How much of a token that is depends on the machines: name them with --gpu or "
            "--membw, or give --baseline."
        )
    else:
        text = (
            f"{title} {_VERDICTS[result.verdict]}: {_short(result.network_ms)} of "
            f"{_figure(result.total_ms)} ms per token are the network "
            f"({_figure(result.tokens_per_s[1])} tokens/s)."
        )
        text += _faster(prediction, result)
        alone = result.verdict == "enough" or result.limited_by in ("latency", "bandwidth")
        what = "What limits you is" if alone else "The largest part is still"
        text += f" {what} {_limit(prediction, result)}."
    if prediction.scenario.drafts and result.break_even is not None:
        text += _drafts_pay(prediction, result.break_even)
    return text


def _drafts_pay(prediction: Prediction, even: float) -> str:
    if even > 1:
        return " Drafting cannot pay here: it would need more than every draft accepted."
    need = f"{100 * max(even, 0):.0f} %"
    mid = f"{100 * prediction.acceptance[1]:.0f} %"
    pays = "pays" if prediction.acceptance[1] > even else "does not pay"
    return f" Drafting breaks even at {need} accepted; with {mid} it {pays}."


def _faster(prediction: Prediction, result: LinkResult) -> str:
    """What the next better link of the table would give."""
    better = [
        other
        for other in prediction.links
        if other.tokens_per_s is not None
        and other.link.rtt_ms[1] <= result.link.rtt_ms[1]
        and other.link.mbit_s[1] > result.link.mbit_s[1]
    ]
    if not better or result.tokens_per_s is None:
        return ""
    nearest = min(better, key=lambda other: other.link.mbit_s[1])
    assert nearest.tokens_per_s is not None
    gain = 100 * (nearest.tokens_per_s[1] / result.tokens_per_s[1] - 1)
    return (
        f" {nearest.link.title} would give {gain:.2g} %."
        if gain >= 0.05
        else (f" {nearest.link.title} would change nothing.")
    )


def _limit(prediction: Prediction, result: LinkResult) -> str:
    compute = prediction.compute
    if result.limited_by != "memory bandwidth" or compute is None:
        trips = prediction.run.decode.round_trips
        return (
            f"round trips, {trips} a token"
            if result.limited_by == "latency"
            else _WORDS.get(result.limited_by, result.limited_by)
        )
    if prediction.hardware.baseline is not None:
        return "computing"
    name = max(compute.by_device, key=lambda device: compute.by_device[device])
    card = prediction.hardware.names.get(name)
    return f"the memory of {name}" + (f" ({card})" if card else "")


def _count(number: int, noun: str) -> str:
    many = {"boundary": "boundaries", "ubatch": "ubatches"}.get(noun, noun + "s")
    return f"{number} {noun if number == 1 else many}"


def _link_table(results: Sequence[LinkResult]) -> Iterator[str]:
    known = bool(results) and results[0].tokens_per_s is not None
    speed = "tokens/s l-mid-h" if known else "tokens/s at most"
    yield f"{'link':<15}{'net ms':>8}  {speed:<18}{'prompt':>7}  {'load s':<12}limited by"
    yield f"{'':<15}{'/token':>8}  {'':<18}{'ms/tok':>7}  {'cold/cached':<12}".rstrip()
    for result in results:
        if result.tokens_per_s is not None:
            speeds = "-".join(_figure(value) for value in result.tokens_per_s)
        else:
            speeds = _figure(result.ceiling)
        load = f"{_seconds(result.cold_s)}/{_seconds(result.cached_s)}"
        line = (
            f"{result.link.name[:15]:<15}{_figure(result.network_ms):>8}  {speeds:<18}"
            f"{_short(result.prefill_ms):>7}  {load:<12}{result.limited_by}"
        )
        yield line[:WIDTH].rstrip()


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _crossing(prediction: Prediction) -> Iterator[str]:
    step = prediction.run.decode
    yield (
        f"What crosses per token at depth {prediction.scenario.depth} "
        f"({_count(step.round_trips, 'round trip')}):"
    )
    yield from _role_table(prediction, step.exchanges)
    floor = prediction.floor_bytes_per_token
    total = step.up + step.down
    times = f", {total / floor:.1f} times the floor" if floor else ""
    yield _wrap(
        f"Textbook floor: {_bytes(floor)} (16-bit hidden states over "
        f"{_count(prediction.scenario.placement.boundaries(), 'boundary')}, once). "
        f"In all {_bytes(total)}{times}.",
        "  ",
    )
    run = prediction.run
    passes = [*run.prefill, *run.prefill_heads]
    up, down = sum(one.up for one in passes), sum(one.down for one in passes)
    yield _wrap(
        f"A prompt of {prediction.scenario.prompt} tokens: {_count(len(run.prefill), 'ubatch')}, "
        f"{_bytes(up)} up, {_bytes(down)} down"
        + (f", and {_bytes(run.state_bytes)} of state as a checkpoint" if run.state_bytes else "")
        + ".",
        "  ",
    )
    load = prediction.load
    yield _wrap(
        f"Load: {_bytes(load.up)} up, {_bytes(load.up_cached)} with the workers' caches filled.",
        "  ",
    )


def _role_table(prediction: Prediction, exchanges: Sequence[Exchange]) -> Iterator[str]:
    yield f"  {'role':<18}{'up':>14}{'down':>14}{'frames':>9}"
    rows = prediction.roles(exchanges)
    for role, up, down, frames in rows:
        yield f"  {role:<18}{up:>14,}{down:>14,}{frames:>9}"
    total_up, total_down = sum(row[1] for row in rows), sum(row[2] for row in rows)
    yield f"  {'sum':<18}{total_up:>14,}{total_down:>14,}{sum(row[3] for row in rows):>9}"


def _drafting(prediction: Prediction) -> Iterator[str]:
    one = prediction.run.round
    assert one is not None
    waits = sum(exchange.waits for exchange in one.exchanges)
    yield (
        f"A round of {prediction.scenario.drafts} drafts "
        f"({waits} round trips, {prediction.tokens_per_round:.2g} tokens):"
    )
    yield from _role_table(prediction, one.exchanges)


def _placement(prediction: Prediction) -> Iterator[str]:
    placement = prediction.scenario.placement
    weights = placement.weight_bytes()
    output = placement.device_of("output.weight")
    yield "Placement:"
    for number, device in enumerate(placement.devices):
        layers = [
            layer
            for layer in range(prediction.scenario.model.layers)
            if placement.layers[layer] == number
        ]
        parts = [f"layers {layers[0]}-{layers[-1]}" if layers else "no layer"]
        if number == placement.cpu:
            parts.append("input embedding")
        if number == output:
            parts.append("output layer")
        where = f" {device.endpoint}" if device.endpoint else ""
        text = f"{device.name}{where}: {', '.join(parts)}; {_bytes(weights[number])} of weights"
        yield _wrap(text, "  ")


def _assumptions(assumptions: Sequence[Assumption]) -> Iterator[str]:
    yield "Assumptions:"
    for one in assumptions:
        yield textwrap.fill(
            f"{one.name}: {one.value} [{one.source}]",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )


def _bytes(value: float) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("kB", 1000)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.0f} B"

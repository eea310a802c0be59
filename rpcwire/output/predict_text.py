"""A prediction in words: verdict, table over links, what crosses, placement, assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rpcwire.output.predict_parts import (
    LIMITS_WORDS,
    VERDICTS,
    assumption_lines,
    count,
    figure,
    link_table,
    short,
    size_text,
    wrap,
)
from rpcwire.predict.prediction import LinkResult, Prediction, usual_link
from rpcwire.predict.wire import Exchange

#: Links up to this number get a sentence each; more are grouped.
SENTENCES = 3


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
    parts.append("\n".join(link_table(prediction.links)))
    parts.append("\n".join(_crossing(prediction)))
    if prediction.run.round is not None:
        parts.append("\n".join(_drafting(prediction)))
    parts.append("\n".join(_placement(prediction)))
    parts.append("\n".join(assumption_lines(prediction.assumptions)))
    return "\n\n".join(parts) + "\n"


def _verdicts(prediction: Prediction) -> Iterator[str]:
    results = prediction.links
    if len(results) <= SENTENCES:
        for result in results:
            yield wrap(sentence(prediction, result))
    else:
        for verdict, words in (
            ("enough", "Enough"),
            ("limits", "Limits"),
            ("not enough", "Not enough"),
        ):
            names = [result.link.name for result in results if result.verdict == verdict]
            if names:
                yield wrap(f"{words}: {', '.join(names)}.")
        yield wrap(sentence(prediction, usual_link(results)))
    yield from _advice(prediction)
    slots = prediction.run.slots
    if slots is not None:
        number = prediction.scenario.context.n_parallel
        yield wrap(
            f"With all {number} slots busy a step carries {number} tokens: "
            f"{size_text(slots.up)} up, {size_text(slots.down)} down, "
            f"{count(slots.round_trips, 'round trip')}."
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
            yield wrap(told.format(size_text(size), f"{short(size / rate)} ms", result.link.title))


def _token(prediction: Prediction) -> Sequence[Exchange]:
    one = prediction.run.round
    return prediction.run.decode.exchanges if one is None else one.exchanges


def sentence(prediction: Prediction, result: LinkResult) -> str:
    """The verdict on one link in words."""
    title = result.link.title
    net = f"{figure(result.network_ms)} ms"
    if result.network_ms == 0:
        return f"{title} is enough: no worker takes part, so nothing crosses the network."
    if result.total_ms is None or result.tokens_per_s is None:
        text = (
            f"Unknown whether {title} is enough: the network takes {net} a token, so at most "
            f"{figure(result.ceiling)} tokens/s, most of it {LIMITS_WORDS[result.limited_by]}. "
            "How much of a token that is depends on the machines: name them with --gpu or "
            "--membw, or give --baseline."
        )
    else:
        text = (
            f"{title} {VERDICTS[result.verdict]}: {short(result.network_ms)} of "
            f"{figure(result.total_ms)} ms per token are the network "
            f"({figure(result.tokens_per_s[1])} tokens/s)."
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
            else LIMITS_WORDS.get(result.limited_by, result.limited_by)
        )
    if prediction.hardware.baseline is not None:
        return "computing"
    name = max(compute.by_device, key=lambda device: compute.by_device[device])
    card = prediction.hardware.names.get(name)
    return f"the memory of {name}" + (f" ({card})" if card else "")


def _crossing(prediction: Prediction) -> Iterator[str]:
    step = prediction.run.decode
    yield (
        f"What crosses per token at depth {prediction.scenario.depth} "
        f"({count(step.round_trips, 'round trip')}):"
    )
    yield from _role_table(prediction, step.exchanges)
    floor = prediction.floor_bytes_per_token
    total = step.up + step.down
    times = f", {total / floor:.1f} times the floor" if floor else ""
    yield wrap(
        f"Textbook floor: {size_text(floor)} (16-bit hidden states over "
        f"{count(prediction.scenario.placement.boundaries(), 'boundary')}, once). "
        f"In all {size_text(total)}{times}.",
        "  ",
    )
    run = prediction.run
    passes = [*run.prefill, *run.prefill_heads]
    up, down = sum(one.up for one in passes), sum(one.down for one in passes)
    yield wrap(
        f"A prompt of {prediction.scenario.prompt} tokens: {count(len(run.prefill), 'ubatch')}, "
        f"{size_text(up)} up, {size_text(down)} down"
        + (
            f", and {size_text(run.state_bytes)} of state as a checkpoint"
            if run.state_bytes
            else ""
        )
        + ".",
        "  ",
    )
    load = prediction.load
    yield wrap(
        f"Load: {size_text(load.up)} up, "
        f"{size_text(load.up_cached)} with the workers' caches filled.",
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
        text = f"{device.name}{where}: {', '.join(parts)}; {size_text(weights[number])} of weights"
        yield wrap(text, "  ")

"""A run that has not happened yet: its passes, from the prompt to the drafts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rpcwire.predict.builder import Builder
from rpcwire.predict.passes import Pass, compute
from rpcwire.predict.scenario import Scenario
from rpcwire.predict.shape import Shape, kv_cells
from rpcwire.predict.wire import Exchange, Wire


@dataclass(slots=True)
class Round:
    """One round of speculative decoding.

    Attributes:
        verify: the target over the drafted tokens. catch_up: the head over the same rows.
        drafts: one pass a drafted token.
    """

    verify: Pass
    catch_up: Pass
    drafts: list[Pass]

    @property
    def exchanges(self) -> list[Exchange]:
        """Requests of the whole round, in order."""
        passes = [self.verify, self.catch_up, *self.drafts]
        return [exchange for one in passes for exchange in one.exchanges]


@dataclass(slots=True)
class Run:
    """What the counts of a scenario come to.

    Attributes:
        decode: the steady step at --depth. prefill: one pass a ubatch.
        prefill_heads: passes of a draft head over the same ubatches, or [].
        slots: the step with every slot of `-np` active, or None.
        round: of speculative decoding, or None.
        state_bytes: recurrent state read as a checkpoint while a prompt is computed.
    """

    decode: Pass
    prefill: list[Pass]
    prefill_heads: list[Pass] = field(default_factory=list)
    slots: Pass | None = None
    round: Round | None = None
    state_bytes: int = 0


def predict_run(scenario: Scenario) -> Run:
    """Work out every pass of a run."""
    depth = scenario.depth
    run = Run(
        decode=_target(scenario, Shape(1, 1, depth + 1), resend=False),
        prefill=[],
    )
    _prefill(scenario, run)
    slots = scenario.context.n_parallel
    if slots > 1:
        used = depth + 1 if scenario.context.streams > 1 else slots * (depth + 1)
        run.slots = _target(scenario, Shape(slots, slots, used, slots), resend=False)
    if scenario.drafts:
        run.round = _round(scenario)
    return run


def ubatches(scenario: Scenario) -> list[int]:
    """Tokens of each ubatch of the prompt, as llama-server cuts it.

    Where state cannot be rolled back it stops 4 tokens, and 4 and a ubatch, before the end for a
    checkpoint.
    """
    total, size = scenario.prompt, scenario.context.n_ubatch
    stops = {total}
    if keeps_checkpoints(scenario):
        stops |= {stop for stop in (total - 4, total - 4 - size) if stop > 0}
    parts, done = [], 0
    batch_end = 0
    for stop in sorted(stops):
        while done < stop:
            if done >= batch_end:
                batch_end = done + scenario.context.n_batch
            step = min(size, stop - done, batch_end - done)
            parts.append(step)
            done += step
        batch_end = done
    return parts


def keeps_checkpoints(scenario: Scenario) -> bool:
    """Whether llama-server cuts the prompt to keep a checkpoint of it."""
    model = scenario.model
    windowed = bool(model.window) and any(model.sliding) and not scenario.context.swa_full
    stateful = any(model.recurrent) or windowed
    return scenario.build.state_checkpoints and stateful and not scenario.flags.bench


def _builder(scenario: Scenario, shape: Shape) -> Builder:
    return Builder(scenario.model, scenario.placement, scenario.build, scenario.context, shape)


def _target(
    scenario: Scenario,
    shape: Shape,
    *,
    resend: bool,
    hidden: bool = False,
    resend_on: frozenset[int] | None = None,
) -> Pass:
    """One pass of the target; `hidden`: a draft head reads its hidden states."""
    graph = _builder(scenario, shape).graph()
    read = [node for node in (graph.logits,) if node is not None]
    if hidden and graph.hidden is not None:
        graph.hidden.down = "draft_hidden"
        read.append(graph.hidden)
    wire = Wire(scenario.protocol)
    return compute(graph, scenario.placement, wire, resend=resend, read=read, resend_on=resend_on)


def _head(scenario: Scenario, shape: Shape, *, resend: bool, read: bool) -> Pass:
    graph = _builder(scenario, shape).draft_graph()
    wanted = []
    if read and graph.hidden is not None:
        graph.hidden.down = "draft_hidden"
        wanted = [graph.hidden, *graph.samples]
        if graph.logits is not None:
            wanted.insert(0, graph.logits)
    wire = Wire(scenario.protocol)
    return compute(graph, scenario.placement, wire, resend=resend, read=wanted)


def _prefill(scenario: Scenario, run: Run) -> None:
    done, before = 0, None
    parts = ubatches(scenario)
    for number, tokens in enumerate(parts):
        done += tokens
        last = number == len(parts) - 1
        used = scenario.depth + done
        shape = Shape(tokens, 1 if last else 0, used)
        cells = kv_cells(scenario.build, scenario.context, used)
        window = kv_cells(scenario.build, scenario.context, used, scenario.model.window)
        now = (tokens, shape.outputs, cells, window)
        resend = now != before or bool(scenario.drafts)
        before = now
        one = _target(scenario, shape, resend=resend, hidden=_has_head(scenario))
        _alloc_queries(scenario, one, resend)
        run.prefill.append(one)
        if scenario.draft is not None:
            run.prefill_heads.append(_target(scenario.draft, shape, resend=True))
        elif scenario.drafts:
            shape = replace(shape, outputs=0)
            run.prefill_heads.append(_head(scenario, shape, resend=True, read=False))
        if not last and keeps_checkpoints(scenario) and done >= scenario.prompt - 4:
            run.state_bytes += _state_bytes(scenario)


def _state_bytes(scenario: Scenario) -> int:
    """Bytes of recurrent state on workers, read once per checkpoint."""
    model, placement = scenario.model, scenario.placement
    layers = [
        layer
        for layer in range(model.layers)
        if model.recurrent[layer] and placement.devices[placement.layers[layer]].remote
    ]
    wire = Wire(scenario.protocol)
    gets = [
        wire.get_tensor(0, 4 * size, "recurrent_state").down
        for _ in layers
        for size in (model.conv_state, model.ssm_state)
        if size
    ]
    return sum(gets)


#: GET_ALLOC_SIZE a rebuilt graph, 3.6 to 5.1: three for each attention and expert product.
_QUERIED = {"flash": 3, "mm_id": 3}


def _alloc_queries(scenario: Scenario, one: Pass, resend: bool) -> None:
    wire = Wire(scenario.protocol)
    if not resend or not wire.at_least(3, 6) or wire.at_least(6):
        return
    for split in one.splits:
        if not scenario.placement.devices[split.device].remote:
            continue
        count = sum(_QUERIED.get(node.op, 0) for node in split.nodes)
        one.exchanges[:0] = [wire.alloc_query(split.device)] * count


def _round(scenario: Scenario) -> Round:
    """A round of `drafts` drafted tokens: verify, catch up, draft.

    A device that computes both target and head forgets either graph each time.
    """
    rows = scenario.drafts + 1
    used = scenario.depth + rows
    if scenario.draft is not None:
        return _model_round(scenario, scenario.draft, rows, used)
    head = Shape(rows, 0, used)
    catch_up = _head(scenario, head, resend=True, read=False)
    _alloc_queries(scenario, catch_up, True)
    shared = frozenset(split.device for split in catch_up.splits)
    verify = _target(
        scenario,
        Shape(rows, rows, used),
        resend=False,
        hidden=True,
        resend_on=shared,
    )
    drafts = []
    for number in range(scenario.drafts):
        one = _head(scenario, Shape(1, 1, used), resend=number == 0, read=True)
        _alloc_queries(scenario, one, number == 0)
        drafts.append(one)
    return Round(verify, catch_up, drafts)


def _has_head(scenario: Scenario) -> bool:
    return bool(scenario.drafts) and scenario.draft is None


def _model_round(scenario: Scenario, draft: Scenario, rows: int, used: int) -> Round:
    """A round with a draft model of its own: it reads logits where a head reads candidates."""
    read = rows if scenario.build.draft_catch_up == "all" else 1
    catch_up = _target(draft, Shape(rows, read, used), resend=True)
    drafting = {draft.placement.devices[split.device].name for split in catch_up.splits}
    devices = scenario.placement.devices
    shared = frozenset(n for n, device in enumerate(devices) if device.name in drafting)
    verify = _target(scenario, Shape(rows, rows, used), resend=False, resend_on=shared)
    steps = [
        _target(draft, Shape(1, 1, used), resend=number == 0) for number in range(scenario.drafts)
    ]
    return Round(verify, catch_up, steps)

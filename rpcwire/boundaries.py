"""The textbook's arithmetic beside a recorded run: a 16-bit hidden state over each boundary."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis, ModelInfo
    from rpcwire.ggml.frame import Frame
    from rpcwire.models.model import Model
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step

#: Passes that are looked at, of each kind.
_ENOUGH = 64
#: Phases whose passes are a token's, best first.
_PHASES = ("decode", "verify", "prefill")
#: Bytes of an activation, at which a hidden state in F32 ends up: the floor counts 2.
_F32, _F16 = 4, 2


class BoundaryCounter:
    """Counts how often passes change device between embedding and output.

    Attributes:
        widths: elements of one row of the hidden states that crossed, and how often.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Counter[int]] = {phase: Counter() for phase in _PHASES}
        self.widths: Counter[int] = Counter()

    def add(self, p: Pass) -> None:
        """Take a pass whose phase is final."""
        seen = self._seen.get(p.group.phase)
        if seen is None or seen.total() >= _ENOUGH or p.context.is_head:
            return
        seen[boundaries(p.steps)] += 1
        for step in p.steps:
            for f in step.inputs:
                if f.role in ("embedding_in", "hidden_in") and f.tensor is not None and f.tensor.ne:
                    self.widths[f.tensor.ne[0]] += 1

    @property
    def count(self) -> int | None:
        """Boundaries of the most usual pass; None when none was seen."""
        for phase in _PHASES:
            if self._seen[phase]:
                return self._seen[phase].most_common(1)[0][0]
        return None


def boundaries(steps: list[Step]) -> int:
    """Changes of device along embedding, layers and output, with a worker on at least one side.

    What one worker hands to the next through the client is one boundary; where the client
    computed in between, two. Experts kept on the client are part of their layer: none.

    Args:
        steps: of one pass, in order.
    """
    if not steps:
        return 0
    count = 1  # embeddings are looked up on the client
    for before, after in pairwise(steps):
        if _experts_only(after):
            continue
        moved = (before.connection_id, before.device) != (after.connection_id, after.device)
        if moved and _relayed(before, after):
            count += 1
        elif _hidden(before.outputs) or moved:
            count += 2 if _hidden(before.outputs) else 1
    roles = {f.role for f in steps[-1].outputs}
    if "hidden_out" in roles and "logits" not in roles:
        count += 1  # the output layer is on the client
    return count


def _hidden(frames: list[Frame]) -> list[Frame]:
    return [f for f in frames if f.role in ("hidden_in", "hidden_out")]


def _experts_only(step: Step) -> bool:
    """Whether what goes on here is a layer whose experts the client computed."""
    return any(f.role == "expert_out" for f in step.inputs)


def _relayed(before: Step, after: Step) -> bool:
    """Whether the client only passed on what it read: the same bytes, as far as captured."""
    read, sent = _hidden(before.outputs), _hidden(after.inputs)
    if not read or not sent:
        return True
    for out in read:
        content = out.response.content if out.response is not None else None
        for into in sent:
            if content is None or into.content is None:
                if out.data_size == into.data_size:
                    return True
            elif content == into.content:
                return True
    return False


def model_info(model: Model, result: Analysis, counter: BoundaryCounter) -> ModelInfo:
    """Compare a model's arithmetic with the recorded run."""
    from rpcwire.analysis import ModelInfo

    count = counter.count
    floor = None if count is None else _F16 * model.hidden_size * count
    token = result.per_token
    measured = None if token.bytes_up is None else token.bytes_up + (token.bytes_down or 0.0)
    info = ModelInfo(
        arch=model.arch,
        hidden_size=model.hidden_size,
        layers=model.layers,
        vocab_size=model.vocab_size,
        boundaries=count,
        floor_bytes_per_token=floor,
        measured_over_floor=measured / floor if measured is not None and floor else None,
    )
    if counter.widths:
        width = counter.widths.most_common(1)[0][0]
        if width != model.hidden_size:
            info.notes.append(
                f"the capture moves hidden states of {width:,} elements, the model has "
                f"{model.hidden_size:,}: is it the model that was run?"
            )
    if count is None:
        info.notes.append("the capture holds no pass, so the floor cannot be computed")
    return info

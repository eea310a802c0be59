"""The measured run beside the textbook's arithmetic, and why they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.output.summary import ROLE_WORDS
from rpcwire.output.terminal import Style, paragraph
from rpcwire.output.units import bytes_text, number_text, plural

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis, ModelInfo

#: Roles that the floor counts, and why they weigh more than it says.
_COUNTED = ("embedding_in", "hidden_in", "hidden_out")
_WHY = {
    "graph": "a graph is serialised again whenever its shape changes, or another graph took its "
    "place on the device",
    "unused_input": "the scheduler uploads inputs whose readers are not computed",
    "kv_mask": "the mask grows with the context and is sent to each device",
    "kv_rotation": "quantized KV sends rotation matrices with each step",
    "logits": "the output layer is on a worker: vocabulary x 4 bytes come back",
    "draft_hidden": "the draft head reads the hidden state of each token",
    "alloc_query": "asked again for graphs whose size is not remembered",
    "recurrent_state": "state is saved and restored through the client",
    "kv_state": "state is saved and restored through the client",
    "expert_out": "experts are computed on the client",
    "expert_ids": "experts are computed on the client",
}
_MOST = 6


def model_section(analysis: Analysis, model: ModelInfo, style: Style) -> str:
    """A heading, the two figures and the reasons for the difference."""
    lines = [
        style.bold("MODEL")
        + f"  {model.arch}: hidden size {model.hidden_size:,}, {plural(model.layers, 'layer')}, "
        f"vocabulary {model.vocab_size:,}"
    ]
    if model.floor_bytes_per_token and model.measured_over_floor is not None:
        measured = model.measured_over_floor * model.floor_bytes_per_token
        text = (
            f"The 16-bit floor, 2 x {model.hidden_size:,} x "
            f"{plural(model.boundaries or 0, 'boundary').replace('boundarys', 'boundaries')}, is "
            f"{bytes_text(model.floor_bytes_per_token)} per token; {bytes_text(measured)} were "
            f"measured, {number_text(model.measured_over_floor)} times as much:"
        )
        lines.append(paragraph(text))
        lines += [paragraph(reason, "  ", "- ") for reason in _reasons(analysis)]
    lines += [style.warn(paragraph(note, "  ", "- ")) for note in model.notes]
    return "\n".join(lines)


def _reasons(analysis: Analysis) -> list[str]:
    by_role = {r.role: r.bytes_per_token or 0.0 for r in analysis.roles}
    hidden = sum(by_role.get(role, 0.0) for role in _COUNTED)
    reasons = []
    if hidden:
        reasons.append(
            f"{bytes_text(hidden)} embeddings and hidden states: 32-bit, not 16, each with a "
            "request of over 300 bytes around it, and down and up again between two workers"
        )
    ranked = sorted(by_role.items(), key=lambda item: -item[1])
    for role, size in ranked:
        if role in _COUNTED or not size or len(reasons) >= _MOST:
            continue
        why = _WHY.get(role)
        reasons.append(f"{bytes_text(size)} {ROLE_WORDS[role]}" + (f": {why}" if why else ""))
    return reasons

"""Roles that need no graph, and those that it alone cannot settle.

What an activation is depends on where in the pass it travels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step

PROBES = ("HELLO", "DEVICE_COUNT", "GET_DEVICE_MEMORY", "GET_ALIGNMENT", "GET_MAX_SIZE")
ALLOCATIONS = (
    "ALLOC_BUFFER",
    "FREE_BUFFER",
    "BUFFER_CLEAR",
    "BUFFER_GET_BASE",
    "INIT_TENSOR",
    "MEMSET_TENSOR",
)
#: Role of commands whose role does not depend on what they carry.
COMMAND_ROLE = {
    **dict.fromkeys(PROBES, "probe"),
    **dict.fromkeys(ALLOCATIONS, "allocation"),
    "GET_ALLOC_SIZE": "alloc_query",
    "GRAPH_COMPUTE": "graph",
    "GRAPH_RECOMPUTE": "graph_reuse",
    "SET_TENSOR_HASH": "weights_hash",
    "COPY_TENSOR": "copy",
}
#: Settled by the graph's structure, whatever the pass.
_FIXED = {
    "activation_pair": "hidden_in",
    "head_embedding": "embedding_in",
    "head_hidden": "draft_hidden",
}
_PLAIN = ("activation", "activation_branch", "activation_scale")


def activation_role(frame: Frame, p: Pass, step: Step) -> str:
    """Role of an upload, given the pass it belongs to.

    The first step of a pass takes the embeddings in (or the hidden state that local layers
    computed from them); a later one takes what the step before handed on.
    """
    role = frame.role
    if role not in _PLAIN:
        return _FIXED.get(role, role)
    if p.steps[0] is not step:
        return "expert_out" if role == "activation_branch" and p.chose_experts else "hidden_in"
    if step.enters_hidden:
        return "hidden_in"
    return "other_input" if role == "activation_scale" else "embedding_in"


def read_role(role: str, has_draft: bool) -> str:
    """Role of a read, given whether a draft head waits for hidden states."""
    if role == "hidden_flagged":
        return "draft_hidden" if has_draft else "hidden_out"
    return "kv_state" if role == "state" else role

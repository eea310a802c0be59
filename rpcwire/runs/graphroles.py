"""Roles of a graph's inputs and outputs, from the ops that read and make them.

Never from a name: renaming every tensor changes nothing.
"""

from __future__ import annotations

from rpcwire.ggml.tensor import FLAG_OUTPUT
from rpcwire.runs.graphindex import INTEGER_TYPES, WALK_LIMIT, GraphIndex, from_logits

_PICKERS = frozenset({"TOP_K", "ARGSORT", "ARGMAX"})

#: What an input is, by the op that reads it and as which source; GET_ROWS and activations need
#: a closer look and have functions of their own.
_READERS: dict[tuple[str, int], str] = {
    ("ROPE", 1): "positions",
    ("ROPE_BACK", 1): "positions",
    ("FLASH_ATTN_EXT", 3): "kv_mask",
    ("SOFT_MAX", 1): "kv_mask",
    ("FLASH_ATTN_EXT", 1): "kv_state",  # a cache that the client holds
    ("FLASH_ATTN_EXT", 2): "kv_state",
    ("MUL_MAT_ID", 2): "expert_ids",
}


def _index_role(b: GraphIndex, reader: int) -> str:
    """GET_ROWS by these indices: of a cache, of weights, or of the batch's own rows."""
    source = b.src[reader][0]
    base = b.base(source) if source in b.row else None
    if base is None:
        return "other_input"
    if b.buffer[base] in b.written:
        return "recurrent_ids"
    return "other_input" if b.is_weight(base) else "output_ids"


def _row_index_role(b: GraphIndex, reader: int, logits: set[int]) -> str:
    """SET_ROWS by these indices: into a cache, or (a sampler's bias) into scores."""
    if b.buffer[reader] in b.written:
        return "kv_indices"
    return "sampling" if from_logits(b, reader, logits) else "other_input"


def _activation_role(
    b: GraphIndex, row: int, readers: list[tuple[int, int]], logits: set[int]
) -> str:
    ne = b.ne[row]
    for r, slot in readers:
        if any(s != b.ids[row] and from_logits(b, b.row[s], logits) for s in b.known(r)):
            return "sampling"
        if b.op[r] == "MUL" and 1 < ne[1] != b.rope_rows and _weighs_experts(b, r, slot, ne):
            return "expert_out"
        if b.op[r] == "MUL_MAT" and ne[0] == ne[1] and ne[2] == 1 and ne[0] % 64 == 0:
            other = b.src[r][1 - slot] if len(b.src[r]) > 1 else 0
            if other in b.row and not b.is_weight(b.row[other]):
                return "kv_rotation"
        if b.op[r] in ("ADD", "ADD_ID") and len(b.src[r]) > 1:
            other = b.src[r][1 - slot] if slot < 2 else 0
            if other in b.row and b.row[other] not in b.is_node:
                o = b.row[other]
                if b.buffer[o] in b.compute_buffers and b.ne[o] == ne:
                    return "activation_pair"
    if ne[0] == 1:
        return "activation_scale"
    added = all(b.op[r] in ("ADD", "ADD_ID") for r, _slot in readers)
    return "activation_branch" if added else "activation"


def _weighs_experts(b: GraphIndex, reader: int, slot: int, ne: list[int]) -> bool:
    """Whether a product weighs the experts' outputs [n_embd, experts used, rows]."""
    if slot > 1 or len(b.src[reader]) < 2:
        return False
    other = b.row.get(b.src[reader][1 - slot])
    return other is not None and b.ne[other][0] == 1 and b.ne[other][1:3] == ne[1:3]


def input_role(b: GraphIndex, row: int, logits: set[int]) -> str:
    """Role of a leaf in a compute buffer; activations as in GraphView.inputs."""
    readers = b.real_readers(b.ids[row])
    if not readers:
        return "unused_input"
    for r, slot in readers:
        role = _READERS.get((b.op[r], slot))
        if role is not None:
            return role
        if b.op[r] == "GET_ROWS" and slot == 1:
            return _index_role(b, r)
        if b.op[r] == "SET_ROWS" and slot == 1:
            return _row_index_role(b, r, logits)
    if b.type[row] in INTEGER_TYPES:
        return "other_input"
    return _activation_role(b, row, readers, logits)


def head_inputs(b: GraphIndex, inputs: dict[int, str]) -> dict[int, str]:
    """A draft head joins the token's embedding and a hidden state with CONCAT, in that order."""
    activations = [i for i, role in inputs.items() if role == "activation"]
    if len(activations) < 2:
        return {}
    rank = dict.fromkeys(activations)
    for r in b.computed:
        if b.op[r] != "CONCAT" or len(b.src[r]) < 2:
            continue
        sides = [_origin(b, s, rank) for s in b.src[r][:2]]
        if None not in sides and sides[0] != sides[1]:
            return {sides[0]: "head_embedding", sides[1]: "head_hidden"}  # type: ignore[dict-item]
    return {}


def _origin(b: GraphIndex, tensor_id: int, wanted: dict[int, None]) -> int | None:
    """The input that a chain of row-wise ops (norms, scales) starts from, if it is wanted."""
    for _ in range(WALK_LIMIT):
        if tensor_id in wanted:
            return tensor_id
        r = b.row.get(tensor_id)
        if r is None or not b.src[r] or b.op[r] == "MUL_MAT":
            return None
        tensor_id = b.src[r][0]
    return None


def output_role(b: GraphIndex, row: int, logits: set[int]) -> str:
    """Role of a node that is read back; "hidden_flagged": an output that is not logits."""
    op = b.op[b.base(b.ids[row])]
    base = b.base(b.ids[row])
    if row in logits or base in logits:
        return "logits"
    if op in _PICKERS or b.type[row] in INTEGER_TYPES:
        return "sampling" if from_logits(b, base, logits) else "expert_ids"
    if op in ("GET_ROWS", "SOFT_MAX", "GLU", "SCALE", "CUMSUM", "STEP") and from_logits(
        b, base, logits
    ):
        return "sampling"
    if op == "MUL_MAT_ID":
        return "expert_out"
    if b.buffer[row] not in b.compute_buffers:
        return "state"
    flagged = b.flags[row] & FLAG_OUTPUT or b.flags[base] & FLAG_OUTPUT
    return "hidden_flagged" if flagged else "hidden_out"

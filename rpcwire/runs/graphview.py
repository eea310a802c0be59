"""What a graph says about itself: which tensors are inputs, what reads them, what made the outputs.

Everything here comes from the structure of the graph (ops, sources, shapes, buffers, flags), never
from a tensor's name: renaming every tensor changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rpcwire.ggml.ops import infer_ops

if TYPE_CHECKING:
    from rpcwire.ggml.graph import Graph

FLAG_OUTPUT, FLAG_COMPUTE = 2, 16
TYPE_F32, TYPE_I32, TYPE_I64 = 0, 26, 27
INTEGER_TYPES = (24, 25, TYPE_I32, TYPE_I64)

#: Ops through which a tensor passes unchanged in meaning.
TRANSPARENT = frozenset(
    {"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "CONT", "CPY", "DUP", "CAST", "REPEAT"}
)
#: Ops that only rescale or shift scores: logits stay logits.
SCORE_WISE = frozenset({"SCALE", "UNARY", "ADD", "CLAMP", "SOFTCAP", "ADD1"})
_PICKERS = frozenset({"TOP_K", "ARGSORT", "ARGMAX"})
_MROPE = 8
_WALK_LIMIT = 64

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


@dataclass(slots=True)
class GraphView:
    """A graph's structure, worked out once and shared by every submission that looks the same.

    Attributes:
        inputs: role by tensor id, for every leaf in a compute buffer. Activations carry one of
            "activation", "activation_pair" (added to another input: an unadded residual),
            "activation_branch" (only added to what this device computed), "activation_scale" (one
            number a row), "head_embedding", "head_hidden", settled by the step they arrive in.
        compute_buffers, kv_buffers, recurrent_buffers: remote buffer pointers.
        rows: tokens in the batch; 0 when the graph does not tell.
        output_rows: rows whose logits it computes; -1 when the output layer is elsewhere.
        hidden_size: elements of the residual stream; 0 when the graph does not tell.
        mrope: positions come in four sections.
        nodes, tensors: as listed in the frame.
        is_head: a draft head (embedding and hidden state enter side by side).
        is_shift: only rotates cached keys to other positions.
        layers: attention or recurrent layers computed (KV or state writes per layer pair).
        streams, kv_size: of the KV tensors: number of streams and cells in each (0: unknown).
    """

    inputs: dict[int, str]
    compute_buffers: frozenset[int]
    kv_buffers: frozenset[int]
    recurrent_buffers: frozenset[int]
    rows: int
    output_rows: int
    hidden_size: int
    mrope: bool
    nodes: int
    tensors: int
    is_head: bool
    is_shift: bool
    layers: int
    streams: int
    kv_size: int
    weights: frozenset[int]
    _made: dict[int, str] = field(repr=False)
    _nodes: frozenset[int] = field(repr=False)

    def output(self, tensor_id: int) -> str | None:
        """Role of a tensor read back after this graph; None when the graph does not make it."""
        made = self._made.get(tensor_id)
        return made or ("hidden_out" if tensor_id in self._nodes else None)


class _Builder:
    """Indexes one graph; only lives while its view is made."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        t = graph.tensors
        self.ids: list[int] = t["id"].tolist()
        self.row = {tensor_id: i for i, tensor_id in enumerate(self.ids)}
        self.op = [names[o] if o < len(names) else "?" for o in t["op"].tolist()]
        self.type: list[int] = t["type"].tolist()
        self.ne: list[list[int]] = t["ne"].tolist()
        self.flags: list[int] = t["flags"].tolist()
        self.buffer: list[int] = t["buffer"].tolist()
        self.view_src: list[int] = t["view_src"].tolist()
        self.params = t["op_params"]
        self.src: list[list[int]] = [[s for s in row if s] for row in t["src"].tolist()]
        self.node_rows = [self.row[i] for i in graph.nodes.tolist() if i in self.row]
        self.is_node = set(self.node_rows)
        flags_used = any(self.flags[r] & FLAG_COMPUTE for r in self.node_rows)
        self.computed = [
            r for r in self.node_rows if not flags_used or self.flags[r] & FLAG_COMPUTE
        ]
        self.flags_used = flags_used or any(f & FLAG_OUTPUT for f in self.flags)
        ropes = [r for r in self.computed if self.op[r] == "ROPE"]
        #: rows of the batch, as a ROPE shows them; 1 without one
        self.rope_rows = self.ne[ropes[0]][2] if ropes else 1
        #: readers of a tensor among what is computed: id -> [(row of the reader, source slot)]
        self.readers: dict[int, list[tuple[int, int]]] = {}
        for r in self.computed:
            for slot, source in enumerate(self.src[r]):
                self.readers.setdefault(source, []).append((r, slot))
        self.compute_buffers = frozenset(
            self.buffer[r]
            for r in self.node_rows
            if not self.view_src[r] and self.op[r] not in ("NONE", "?") and self.buffer[r]
        )
        #: buffers that persist and that this graph writes into: caches
        self.written = {
            self.buffer[r]
            for r in self.node_rows
            if self.view_src[r]
            and self.op[r] in ("CPY", "SET_ROWS", "SCALE", "SET")
            and self.buffer[r] not in self.compute_buffers
        }

    def known(self, row: int) -> list[int]:
        """Ids of a tensor's sources that the graph holds."""
        return [s for s in self.src[row] if s in self.row]

    def base(self, tensor_id: int) -> int:
        """The row of the tensor that a chain of views and copies starts from."""
        r = self.row[tensor_id]
        for _ in range(_WALK_LIMIT):
            if self.op[r] not in TRANSPARENT or not self.src[r]:
                return r
            nxt = self.row.get(self.src[r][0])
            if nxt is None:
                return r
            r = nxt
        return r

    def real_readers(self, tensor_id: int) -> list[tuple[int, int]]:
        """(row, slot) of the ops that read a tensor, looking through views and copies."""
        found: list[tuple[int, int]] = []
        todo, seen = [tensor_id], {tensor_id}
        while todo and len(found) < _WALK_LIMIT:
            current = todo.pop()
            for r, slot in self.readers.get(current, ()):
                if self.op[r] in TRANSPARENT and slot == 0:
                    if self.buffer[r] in self.written:
                        found.append((r, slot))
                    elif self.ids[r] not in seen:
                        seen.add(self.ids[r])
                        todo.append(self.ids[r])
                else:
                    found.append((r, slot))
        return found


def _is_weight(b: _Builder, row: int) -> bool:
    return (
        b.op[row] == "NONE"
        and b.buffer[row] not in b.compute_buffers
        and b.buffer[row] not in b.written
    )


def _index_role(b: _Builder, reader: int) -> str:
    """GET_ROWS by these indices: of a cache, of weights, or of the batch's own rows."""
    source = b.src[reader][0]
    base = b.base(source) if source in b.row else None
    if base is None:
        return "other_input"
    if b.buffer[base] in b.written:
        return "recurrent_ids"
    return "other_input" if _is_weight(b, base) else "output_ids"


def _row_index_role(b: _Builder, reader: int, logits: set[int]) -> str:
    """SET_ROWS by these indices: into a cache, or (a sampler's bias) into scores."""
    if b.buffer[reader] in b.written:
        return "kv_indices"
    return "sampling" if _from_logits(b, reader, logits) else "other_input"


def _activation_role(
    b: _Builder, row: int, readers: list[tuple[int, int]], logits: set[int]
) -> str:
    ne = b.ne[row]
    for r, slot in readers:
        if any(s != b.ids[row] and _from_logits(b, b.row[s], logits) for s in b.known(r)):
            return "sampling"
        if b.op[r] == "MUL" and 1 < ne[1] != b.rope_rows and _weighs_experts(b, r, slot, ne):
            return "expert_out"
        if b.op[r] == "MUL_MAT" and ne[0] == ne[1] and ne[2] == 1 and ne[0] % 64 == 0:
            other = b.src[r][1 - slot] if len(b.src[r]) > 1 else 0
            if other in b.row and not _is_weight(b, b.row[other]):
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


def _weighs_experts(b: _Builder, reader: int, slot: int, ne: list[int]) -> bool:
    """Whether a product weighs the experts' outputs [n_embd, experts used, rows]."""
    if slot > 1 or len(b.src[reader]) < 2:
        return False
    other = b.row.get(b.src[reader][1 - slot])
    return other is not None and b.ne[other][0] == 1 and b.ne[other][1:3] == ne[1:3]


def _input_role(b: _Builder, row: int, logits: set[int]) -> str:
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


def _head_inputs(b: _Builder, inputs: dict[int, str]) -> dict[int, str]:
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


def _origin(b: _Builder, tensor_id: int, wanted: dict[int, None]) -> int | None:
    """The input that a chain of row-wise ops (norms, scales) starts from, if it is wanted."""
    for _ in range(_WALK_LIMIT):
        if tensor_id in wanted:
            return tensor_id
        r = b.row.get(tensor_id)
        if r is None or not b.src[r] or b.op[r] == "MUL_MAT":
            return None
        tensor_id = b.src[r][0]
    return None


def _output_role(b: _Builder, row: int, logits: set[int]) -> str:
    op = b.op[b.base(b.ids[row])]
    base = b.base(b.ids[row])
    if row in logits or base in logits:
        return "logits"
    if op in _PICKERS or b.type[row] in INTEGER_TYPES:
        return "sampling" if _from_logits(b, base, logits) else "expert_ids"
    if op in ("GET_ROWS", "SOFT_MAX", "GLU", "SCALE", "CUMSUM", "STEP") and _from_logits(
        b, base, logits
    ):
        return "sampling"
    if op == "MUL_MAT_ID":
        return "expert_out"
    if b.buffer[row] not in b.compute_buffers:
        return "state"
    flagged = b.flags[row] & FLAG_OUTPUT or b.flags[base] & FLAG_OUTPUT
    return "hidden_flagged" if flagged else "hidden_out"


def _from_logits(b: _Builder, row: int, logits: set[int]) -> bool:
    todo, seen = [row], {row}
    while todo and len(seen) < _WALK_LIMIT * 4:
        r = todo.pop()
        if r in logits:
            return True
        if b.op[r] in ("MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT", "NONE"):
            continue
        for s in b.src[r]:
            nxt = b.row.get(s)
            if nxt is not None and nxt not in seen:
                seen.add(nxt)
                todo.append(nxt)
    return False


def _after_norm(b: _Builder, row: int) -> bool:
    """Whether a product is all that reads a norm: the output layer, not a query or key."""
    source = b.src[row][1]
    if source not in b.row or len(b.readers.get(source, ())) > 1:
        return False
    r = b.row[source]
    if b.op[r] == "MUL" and b.known(r):  # the norm's weights
        r = b.row[b.known(r)[0]]
    return b.op[r] in ("RMS_NORM", "NORM")


def _logits_rows(b: _Builder) -> set[int]:
    """The output layer's product: weights times the last hidden state, flagged or read by none."""
    found: set[int] = set()
    for r in reversed(b.node_rows[-_WALK_LIMIT:]):
        if b.op[r] != "MUL_MAT" or b.type[r] != TYPE_F32 or len(b.src[r]) < 2:
            continue
        weights = b.row.get(b.src[r][0])
        if weights is None or not _is_weight(b, b.base(b.ids[weights])):
            continue
        chain = [r]
        for _ in range(8):  # scale, soft cap, bias
            nxt = [x for x, _s in b.readers.get(b.ids[chain[-1]], ()) if b.op[x] in SCORE_WISE]
            if len(nxt) != 1 or b.ne[nxt[0]] != b.ne[r]:
                break
            chain.append(nxt[0])
        flagged = any(b.flags[x] & FLAG_OUTPUT for x in chain)
        terminal = not b.readers.get(b.ids[chain[-1]]) and _after_norm(b, r)
        if flagged or (not b.flags_used and terminal):
            found.update(chain)
            break
    return found


def _shape(b: _Builder, inputs: dict[int, str]) -> tuple[int, bool]:
    """Rows of the batch and whether positions are M-RoPE's, from a ROPE or an input."""
    for r in b.computed:
        if b.op[r] == "ROPE":
            return b.ne[r][2], bool(int(b.params[r][2]) & _MROPE)
    for tensor_id, role in inputs.items():
        ne = b.ne[b.row[tensor_id]]
        if role in ("activation", "activation_pair", "head_embedding", "kv_mask"):
            return ne[1] * ne[2], False
        if role == "kv_indices":
            return ne[0], False
    return 0, False


def _hidden_size(b: _Builder) -> int:
    widths = Counter(
        b.ne[r][0] for r in b.computed if b.op[r] in ("RMS_NORM", "NORM") and b.ne[r][2] == 1
    )
    return widths.most_common(1)[0][0] if widths else 0


def build_view(graph: Graph, names: Sequence[str]) -> GraphView:
    """Work out a graph's structure.

    Args:
        graph: as sent by GRAPH_COMPUTE; at most a few thousand tensors in practice, and never
            more than the frame's own bytes allow.
        names: of the ops, by number.

    Returns:
        The view. Unknown structures yield "activation", "other_input" and "hidden_out" roles.
    """
    b = _Builder(graph, names)
    leaves = [
        r
        for r in range(len(b.ids))
        if r not in b.is_node
        and b.op[r] in ("NONE", "?")
        and not b.view_src[r]
        and b.buffer[r] in b.compute_buffers
    ]
    logits = _logits_rows(b)
    inputs = {b.ids[r]: _input_role(b, r, logits) for r in leaves}
    is_shift = {b.op[r] for r in b.computed} - TRANSPARENT == {"ROPE"}
    if is_shift:  # works in place, so that no buffer is known as the compute buffer
        inputs = {
            b.ids[r]: "positions"
            for r in range(len(b.ids))
            if b.type[r] in INTEGER_TYPES and r not in b.is_node
        }
    head = _head_inputs(b, inputs)
    inputs.update(head)
    hidden_size = _hidden_size(b)
    rows, mrope = _shape(b, inputs)
    recurrent = set()
    kv_writers: list[int] = []
    for r in b.node_rows:
        if b.buffer[r] not in b.written:
            continue
        if b.op[r] == "SET_ROWS":
            kv_writers.append(r)
    for r in b.computed:
        if b.op[r] == "GET_ROWS":
            base = b.base(b.src[r][0]) if b.src[r] and b.src[r][0] in b.row else r
            if b.buffer[base] in b.written:
                recurrent.add(b.buffer[base])
    kv = b.written - recurrent
    # The common case, an activation that goes on to the next split, needs no entry.
    made = {
        b.ids[r]: _output_role(b, r, logits)
        for r in b.node_rows
        if b.buffer[r] not in b.written
        and (
            r in logits
            or b.flags[r] & FLAG_OUTPUT
            or b.type[r] in INTEGER_TYPES
            or b.op[r] == "MUL_MAT_ID"
            or b.ids[r] not in b.readers
        )
    }
    streams = kv_size = 0
    if kv_writers:
        cache = b.ne[kv_writers[0]]
        base_ne = (
            b.ne[b.row[b.view_src[kv_writers[0]]]]
            if (b.view_src[kv_writers[0]] in b.row)
            else cache
        )
        kv_size, streams = base_ne[1], base_ne[2]
    layers = sum(1 for r in b.computed if b.op[r] in ("FLASH_ATTN_EXT", "SOFT_MAX", "SSM_CONV"))
    weights = frozenset(b.buffer[r] for r in range(len(b.ids)) if _is_weight(b, r))
    return GraphView(
        inputs=inputs,
        compute_buffers=b.compute_buffers,
        kv_buffers=frozenset(kv),
        recurrent_buffers=frozenset(recurrent),
        rows=rows,
        output_rows=min((b.ne[r][1] for r in logits), default=-1),
        hidden_size=hidden_size,
        mrope=mrope,
        nodes=len(b.node_rows),
        tensors=len(b.ids),
        is_head=bool(head),
        is_shift=is_shift,
        layers=layers,
        streams=streams,
        kv_size=kv_size,
        weights=weights,
        _made=made,
        _nodes=frozenset(b.ids[r] for r in b.node_rows if b.buffer[r] not in b.written),
    )


class ViewCache:
    """Views by structure, so that a graph sent again, or with other offsets, is not redone.

    One cache serves one client, since what the op numbers mean is inferred once and for all: again
    only from a graph with numbers that were not there before.
    """

    def __init__(self, limit: int = 256) -> None:
        self._views: dict[bytes, GraphView] = {}
        self._limit = limit
        self._ops: set[int] = set()
        self._names: Sequence[str] = ()
        self._lead = -1.0

    def view(self, graph: Graph) -> GraphView:
        """The view of a graph; worked out the first time its structure is seen."""
        t = graph.tensors
        key = (
            b"".join(
                np.ascontiguousarray(t[name]).tobytes()
                for name in ("id", "op", "src", "ne", "flags", "buffer", "view_src")
            )
            + np.ascontiguousarray(graph.nodes).tobytes()
        )
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= self._limit:
                self._views.pop(next(iter(self._views)))
            found = self._views[key] = build_view(graph, self._op_names(graph))
        return found

    def _op_names(self, graph: Graph) -> Sequence[str]:
        ops = set(graph.tensors["op"].tolist())
        if not ops <= self._ops:
            table, lead = infer_ops(graph)
            if lead >= self._lead:
                self._names, self._lead = table.names, lead
            self._ops |= ops
        return self._names

"""What a graph says about itself: which tensors are inputs, what reads them, what made the outputs.

Everything here comes from the structure of the graph (ops, sources, shapes, buffers, flags), never
from a tensor's name: renaming every tensor changes nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rpcwire.ggml.ops import infer_ops
from rpcwire.ggml.tensor import FLAG_OUTPUT
from rpcwire.runs.graphindex import INTEGER_TYPES, TRANSPARENT, GraphIndex, logits_rows
from rpcwire.runs.graphroles import head_inputs, input_role, output_role

if TYPE_CHECKING:
    from rpcwire.ggml.graph import Graph

_RECENT, _RECENT_BYTES = 6, 4 << 20
#: Axes that count the rows of a batch, by role; the surest first.
_ROW_AXES = {
    "kv_indices": (0,),
    "kv_mask": (1, 2),
    "head_embedding": (1, 2),
    "activation_pair": (1, 2),
    "activation": (1, 2),
    "activation_branch": (1, 2),
}
_MROPE = 8  #: bit of a ROPE's mode


@dataclass(slots=True, eq=False)
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


def _shape(b: GraphIndex, inputs: dict[int, str]) -> tuple[int, bool]:
    """Rows of the batch and whether positions are M-RoPE's, from a ROPE or an input."""
    for r in b.computed:
        if b.op[r] == "ROPE":
            return b.ne[r][2], bool(int(b.params[r][2]) & _MROPE)
    shapes = {role: b.ne[b.row[tensor_id]] for tensor_id, role in inputs.items()}
    for role, axes in _ROW_AXES.items():
        if role in shapes:
            return prod(shapes[role][axis] for axis in axes), False
    return 0, False


def _hidden_size(b: GraphIndex) -> int:
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
    b = GraphIndex(graph, names)
    leaves = [
        r
        for r in range(len(b.ids))
        if r not in b.is_node
        and b.op[r] in ("NONE", "?")
        and not b.view_src[r]
        and b.buffer[r] in b.compute_buffers
    ]
    logits = logits_rows(b)
    inputs = {b.ids[r]: input_role(b, r, logits) for r in leaves}
    is_shift = {b.op[r] for r in b.computed} - TRANSPARENT == {"ROPE"}
    if is_shift:  # works in place, so that no buffer is known as the compute buffer
        inputs = {
            b.ids[r]: "positions"
            for r in range(len(b.ids))
            if b.type[r] in INTEGER_TYPES and r not in b.is_node
        }
    head = head_inputs(b, inputs)
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
        b.ids[r]: output_role(b, r, logits)
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
    weights = frozenset(b.buffer[r] for r in range(len(b.ids)) if b.is_weight(r))
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
        #: graphs last seen: comparing whole payloads is faster than taking one apart
        self._recent: deque[tuple[Graph, GraphView]] = deque(maxlen=_RECENT)

    def view(self, graph: Graph) -> GraphView:
        """The view of a graph; worked out the first time its structure is seen."""
        raw = graph.raw
        for seen, view in self._recent:
            if seen.raw == raw:
                graph.twin = seen
                return view
        view = self._by_structure(graph)
        if len(raw) <= _RECENT_BYTES:
            self._recent.append((graph, view))
        return view

    def _by_structure(self, graph: Graph) -> GraphView:
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

"""What the op numbers of a graph mean, read off the graph itself.

The protocol does not say which build numbered the ops, and names may be missing. Each known
numbering is held against the graph: number of sources, shapes, types, views. A numbering that is
off by one claims, say, that a matrix product is a norm, which the shapes refute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rpcwire.ggml.ops_table import OP_TABLES, OpTable

if TYPE_CHECKING:
    from rpcwire.ggml.graph import Graph

F32, I32, I64 = 0, 26, 27
_FEW_UNARY_OPS = 32

#: ggml names the result of these ops after its source.
SUFFIXES = {
    b" (view)": "VIEW",
    b" (reshaped)": "RESHAPE",
    b" (permuted)": "PERMUTE",
    b" (transposed)": "TRANSPOSE",
    b" (cont)": "CONT",
    b" (copy)": "CPY",
}

Mask = Any  # bool[n], one element a tensor; numpy's stubs type comparisons of columns as Any
Ints = NDArray[np.int64]


class OpGroup:
    """All tensors of a graph with the same op number, as columns.

    A source that has no record in the graph has type -1 and shape 0: nothing is held against it.
    """

    def __init__(self, graph: Graph, rows: Ints) -> None:
        self._graph = graph
        self._rows = rows
        records = graph.tensors[rows]
        self.ne: Ints = records["ne"].astype(np.int64)
        self.type: Ints = records["type"].astype(np.int64)
        self.params: Ints = records["op_params"].astype(np.int64)
        self.sources: Ints = (records["src"] != 0).sum(axis=1)
        self.is_view: Mask = records["view_src"] != 0
        self.elements: Ints = self.ne.prod(axis=1)
        names: list[bytes] = records["name"].tolist()
        #: Ops that the names of the tensors speak of.
        self.hints = Counter(
            op for name in names[:50] for end, op in SUFFIXES.items() if name.endswith(end)
        )

    def src_ne(self, i: int) -> Ints:
        """int64[n, 4], shape of source i; zeros where it is not known."""
        at = self._graph.src_rows[self._rows, i]
        shape: Ints = self._graph.tensors["ne"][at].astype(np.int64)
        shape[at < 0] = 0
        return shape

    def src_type(self, i: int) -> Ints:
        """int64[n], type of source i; -1 where it is not known."""
        at = self._graph.src_rows[self._rows, i]
        kind: Ints = self._graph.tensors["type"][at].astype(np.int64)
        kind[at < 0] = -1
        return kind

    @cached_property
    def a(self) -> Ints:
        """Shape of the first source."""
        return self.src_ne(0)

    @cached_property
    def b(self) -> Ints:
        """Shape of the second source."""
        return self.src_ne(1)

    @cached_property
    def c(self) -> Ints:
        """Shape of the third source."""
        return self.src_ne(2)

    @cached_property
    def knows_a(self) -> Mask:
        """Where the first source has a record."""
        return self.a[:, 0] > 0

    @cached_property
    def knows_b(self) -> Mask:
        """Where the second source has a record."""
        return self.b[:, 0] > 0

    @cached_property
    def same(self) -> Mask:
        """Where the shape is that of the first source."""
        return ~self.knows_a | (self.ne == self.a).all(axis=1)

    @cached_property
    def keeps(self) -> Mask:
        """Where there are as many elements as in the first source."""
        return ~self.knows_a | (self.elements == self.a.prod(axis=1))


def _index(g: OpGroup, i: int) -> Mask:
    return np.isin(g.src_type(i), (I32, I64, -1))


def _mul_mat(g: OpGroup) -> Mask:
    a, b = g.a, g.b
    known = g.knows_a & g.knows_b
    product = (a[:, 0] == b[:, 0]) & (g.ne[:, 0] == a[:, 1]) & (g.ne[:, 1] == b[:, 1])
    return (~known | product) & (g.type == F32)


def _mul_mat_id(g: OpGroup) -> Mask:
    a, b = g.a, g.b
    product = (a[:, 0] == b[:, 0]) & (g.ne[:, 0] == a[:, 1]) & (g.ne[:, 2] == b[:, 2])
    return (~(g.knows_a & g.knows_b) | product) & _index(g, 2)


def _broadcast(g: OpGroup) -> Mask:
    fits = (g.ne % np.maximum(g.b, 1) == 0).all(axis=1)
    return g.same & fits & (g.type != I32)


def _get_rows(g: OpGroup) -> Mask:
    rows = ~g.knows_b | (g.ne[:, 1] == g.b[:, 0])
    return _index(g, 1) & (~g.knows_a | (g.ne[:, 0] == g.a[:, 0])) & rows & ~g.is_view


def _set_rows(g: OpGroup) -> Mask:
    return _index(g, 1) & g.is_view & (~g.knows_a | (g.ne[:, 0] == g.a[:, 0]))


def _rope(g: OpGroup) -> Mask:
    positions = np.isin(g.b[:, 0] - g.ne[:, 2], (0,)) | (g.b[:, 0] == 4 * g.ne[:, 2])
    return g.same & np.isin(g.src_type(1), (I32, -1)) & (~g.knows_b | positions)


def _flash(g: OpGroup) -> Mask:
    q, v = g.a, g.c
    swapped = (g.ne[:, 1] == q[:, 2]) & (g.ne[:, 2] == q[:, 1])
    return (~g.knows_a | swapped) & ((v[:, 0] == 0) | (g.ne[:, 0] == v[:, 0])) & (g.type == F32)


def _soft_max(g: OpGroup) -> Mask:
    mask = ~g.knows_b | (g.b[:, 0] == g.ne[:, 0])
    return g.same & mask & (g.type == F32) & ~np.isin(g.src_type(1), (I32, I64))


def _eps(g: OpGroup) -> Mask:
    eps = g.params[:, 0].astype(np.int32).view(np.float32)
    with np.errstate(invalid="ignore"):
        return g.same & (g.type == F32) & (eps >= 0) & (eps < 0.1)


def _norm(g: OpGroup) -> Mask:
    return _eps(g) & (g.params[:, 0] != 0)


def _permute(g: OpGroup) -> Mask:
    sorted_same = (np.sort(g.ne, axis=1) == np.sort(g.a, axis=1)).all(axis=1)
    axes = g.params[:, :4]
    is_axes = (np.sort(axes, axis=1) == np.arange(4)).all(axis=1)
    return g.is_view & (~g.knows_a | sorted_same) & is_axes


def _transpose(g: OpGroup) -> Mask:
    swapped = (g.ne[:, 0] == g.a[:, 1]) & (g.ne[:, 1] == g.a[:, 0])
    return g.is_view & (~g.knows_a | swapped)


def _glu(g: OpGroup) -> Mask:
    halved = (g.sources == 1) & (2 * g.ne[:, 0] == g.a[:, 0])
    return ~g.knows_a | halved | ((g.sources == 2) & g.same & (g.ne == g.b).all(axis=1))


def _ssm_conv(g: OpGroup) -> Mask:
    return (~g.knows_a | (g.ne[:, 0] == g.a[:, 1])) & (
        ~g.knows_b | (g.a[:, 0] >= g.b[:, 0] - 1 + g.ne[:, 1])
    )


def _concat(g: OpGroup) -> Mask:
    return ~(g.knows_a & g.knows_b) | (g.elements == g.a.prod(axis=1) + g.b.prod(axis=1))


def _any(g: OpGroup) -> Mask:
    return np.ones(len(g.type), np.bool_)


Rule = tuple[int, int, float, Callable[[OpGroup], Mask]]

#: name -> fewest and most sources, weight (how telling it is), what must hold of each tensor.
RULES: dict[str, Rule] = {
    "DUP": (1, 1, 0.5, lambda g: g.same & ~g.is_view),
    "ADD": (2, 2, 1, _broadcast),
    "ADD_ID": (3, 3, 2, lambda g: g.same & _index(g, 2)),
    "ADD1": (2, 2, 0.2, lambda g: g.same & (g.b.prod(axis=1) <= 1)),
    "ACC": (2, 2, 0.2, lambda g: g.same & g.is_view),
    "SUB": (2, 2, 0.5, _broadcast),
    "MUL": (2, 2, 1, _broadcast),
    "DIV": (2, 2, 0.5, _broadcast),
    "SQR": (1, 1, 0.5, lambda g: g.same & (g.type == F32)),
    "SQRT": (1, 1, 0.5, lambda g: g.same & (g.type == F32)),
    "LOG": (1, 1, 0.2, lambda g: g.same & (g.type == F32)),
    "SIN": (1, 1, 0.2, lambda g: g.same & (g.type == F32)),
    "COS": (1, 1, 0.2, lambda g: g.same & (g.type == F32)),
    "SUM": (1, 1, 0.5, lambda g: g.elements == 1),
    "SUM_ROWS": (1, 1, 1, lambda g: (g.ne[:, 0] == 1) & (g.ne[:, 1] == g.a[:, 1])),
    "CUMSUM": (1, 1, 0.5, lambda g: g.same & (g.type == F32)),
    "MEAN": (1, 1, 0.5, lambda g: g.ne[:, 0] == 1),
    "ARGMAX": (1, 1, 1, lambda g: (g.type == I32) & (g.ne[:, 0] == g.a[:, 1])),
    "COUNT_EQUAL": (2, 2, 0.5, lambda g: g.type == I64),
    "REPEAT": (1, 2, 0.5, lambda g: (g.ne % np.maximum(g.a, 1) == 0).all(axis=1) & ~g.is_view),
    "REPEAT_BACK": (1, 1, 0.1, lambda g: (g.a % np.maximum(g.ne, 1) == 0).all(axis=1)),
    "CONCAT": (2, 2, 1, _concat),
    "SILU_BACK": (2, 2, 0.1, lambda g: g.same),
    "NORM": (1, 1, 1, _norm),
    "RMS_NORM": (1, 1, 1.5, _norm),
    "RMS_NORM_BACK": (2, 2, 0.1, _eps),
    "GROUP_NORM": (1, 1, 0.3, lambda g: g.same & (g.params[:, 0] > 0) & (g.params[:, 0] < 4096)),
    "L2_NORM": (1, 1, 1, _norm),
    "MUL_MAT": (2, 2, 4, _mul_mat),
    "MUL_MAT_ID": (3, 3, 4, _mul_mat_id),
    "OUT_PROD": (2, 2, 0.5, lambda g: (g.ne[:, 0] == g.a[:, 0]) & (g.ne[:, 1] == g.b[:, 0])),
    "SCALE": (1, 1, 0.7, lambda g: g.same & (g.params[:, 2:] == 0).all(axis=1)),
    "SET": (2, 2, 0.2, lambda g: g.same),
    "CPY": (2, 2, 2, lambda g: g.keeps & g.is_view),
    "CONT": (1, 1, 1.5, lambda g: g.keeps & ~g.is_view & (g.params == 0).all(axis=1)),
    "RESHAPE": (1, 1, 2, lambda g: g.keeps & g.is_view),
    "VIEW": (1, 1, 1.5, lambda g: g.is_view),
    "PERMUTE": (1, 1, 2, _permute),
    "TRANSPOSE": (1, 1, 1.5, _transpose),
    "GET_ROWS": (2, 2, 4, _get_rows),
    "GET_ROWS_BACK": (2, 3, 0.1, lambda g: _index(g, 1)),
    "SET_ROWS": (2, 3, 4, _set_rows),
    "DIAG": (1, 1, 0.3, lambda g: (g.ne[:, 0] == g.ne[:, 1]) & (g.a[:, 1] == 1)),
    "DIAG_MASK_INF": (1, 1, 0.2, lambda g: g.same),
    "DIAG_MASK_ZERO": (1, 1, 0.1, lambda g: g.same),
    "SOFT_MAX": (1, 3, 2, _soft_max),
    "SOFT_MAX_BACK": (2, 2, 0.1, lambda g: g.same),
    "ROPE": (2, 3, 4, _rope),
    "ROPE_BACK": (2, 3, 0.5, _rope),
    "CLAMP": (1, 1, 0.5, lambda g: g.same),
    "IM2COL": (2, 2, 0.3, _any),
    "POOL_1D": (1, 1, 0.2, lambda g: ~g.same | ~g.knows_a),
    "POOL_2D": (1, 1, 0.2, lambda g: ~g.same | ~g.knows_a),
    "UPSCALE": (1, 1, 0.2, lambda g: (g.ne >= g.a).all(axis=1) & ~g.is_view),
    "PAD": (1, 1, 0.5, lambda g: (g.ne >= g.a).all(axis=1) & ~g.is_view),
    "PAD_REFLECT_1D": (1, 1, 0.1, lambda g: (g.ne >= g.a).all(axis=1) & ~g.is_view),
    "ROLL": (1, 1, 0.2, lambda g: g.same & ~g.is_view),
    "ARANGE": (0, 0, 0.5, lambda g: g.elements == g.ne[:, 0]),
    "TIMESTEP_EMBEDDING": (1, 1, 0.2, _any),
    "ARGSORT": (1, 1, 2, lambda g: g.same & (g.type == I32)),
    "TOP_K": (1, 1, 2, lambda g: (g.type == I32) & (~g.knows_a | (g.ne[:, 0] <= g.a[:, 0]))),
    "LEAKY_RELU": (1, 1, 0.3, lambda g: g.same),
    "TRI": (1, 1, 0.5, lambda g: g.same & (g.ne[:, 0] == g.ne[:, 1])),
    "FILL": (1, 1, 0.3, lambda g: g.same),
    "FLASH_ATTN_EXT": (3, 5, 4, _flash),
    "FLASH_ATTN_BACK": (4, 5, 0.1, _any),
    "SSM_CONV": (2, 2, 2, _ssm_conv),
    "SSM_SCAN": (6, 7, 2, _any),
    "RWKV_WKV6": (6, 6, 0.5, _any),
    "GATED_LINEAR_ATTN": (5, 5, 0.5, _any),
    "RWKV_WKV7": (7, 7, 0.5, _any),
    "SOLVE_TRI": (2, 2, 0.5, lambda g: (g.a[:, 0] == g.a[:, 1]) & (g.ne == g.b).all(axis=1)),
    "GATED_DELTA_NET": (6, 7, 2, lambda g: g.type == F32),
    "LIGHTNING_INDEXER": (3, 5, 0.5, _any),
    "UNARY": (
        1,
        1,
        1,
        lambda g: g.same & (g.params[:, 0] < _FEW_UNARY_OPS) & (g.params[:, 0] >= 0),
    ),
    "GLU": (1, 2, 2, _glu),
    "OPT_STEP_ADAMW": (5, 5, 0.1, _any),
    "OPT_STEP_SGD": (3, 3, 0.1, _any),
    "CROSS_ENTROPY_LOSS": (2, 2, 0.1, lambda g: g.elements == 1),
    "CROSS_ENTROPY_LOSS_BACK": (3, 3, 0.1, _any),
}
#: Ops without a rule take any number of sources and tell nothing.
_NO_RULE: Rule = (0, 16, 0.0, _any)
#: What it costs a numbering to be refuted by an op.
_REFUTED = 6.0


def _score(group: OpGroup, name: str) -> float:
    """How well one op number's tensors agree with an op."""
    fewest, most, weight, rule = RULES.get(name, _NO_RULE)
    good = (group.sources >= fewest) & (group.sources <= most)
    if good.all():
        good = good & rule(group)
    share = float(good.mean())
    hints = group.hints.total()
    hinted = (2 * group.hints[name] - hints) / hints if hints else 0.0
    return (weight if share == 1 else -_REFUTED * (1 - share)) + hinted


def infer_ops(graph: Graph) -> tuple[OpTable, float]:
    """The numbering that explains a graph best, and its lead over the next one that differs.

    Returns:
        The table, the newest of equals; and the difference of scores to the best table that names
        an op of this graph differently (0: as good).
    """
    ops = graph.tensors["op"]
    numbers = [n for n in sorted(set(ops.tolist())) if n]
    groups = {n: OpGroup(graph, np.flatnonzero(ops == n)) for n in numbers}
    scores: dict[tuple[int, str], float] = {}
    ranked: list[tuple[float, int, tuple[str, ...]]] = []
    for age, table in enumerate(OP_TABLES):
        total = 0.0
        names = []
        for n in numbers:
            name = table.names[n] if n < len(table.names) else "?"
            names.append(name)
            if (n, name) not in scores:
                scores[n, name] = _score(groups[n], name) if name != "?" else -_REFUTED
            total += scores[n, name]
        ranked.append((total, age, tuple(names)))
    ranked.sort(reverse=True)
    best = ranked[0]
    others = [r[0] for r in ranked if r[2] != best[2]]
    return OP_TABLES[best[1]], best[0] - others[0] if others else best[0]


def op_names(graph: Graph) -> dict[int, str]:
    """Name of each op number, as far as the graph's own tensors can tell."""
    table, _ = infer_ops(graph)
    return dict(enumerate(table.names))

"""One graph, indexed: who reads a tensor, what it starts from, which buffers are caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcwire.ggml.tensor import FLAG_COMPUTE, FLAG_OUTPUT, TYPE_ID

if TYPE_CHECKING:
    from rpcwire.ggml.graph import Graph

TYPE_F32, TYPE_I32, TYPE_I64 = TYPE_ID["F32"], TYPE_ID["I32"], TYPE_ID["I64"]
INTEGER_TYPES = tuple(TYPE_ID[name] for name in ("I8", "I16", "I32", "I64"))

#: Ops through which a tensor passes unchanged in meaning.
TRANSPARENT = frozenset(
    {"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "CONT", "CPY", "DUP", "CAST", "REPEAT"}
)
#: Ops that only rescale or shift scores: logits stay logits.
_SCORE_WISE = frozenset({"SCALE", "UNARY", "ADD", "CLAMP", "SOFTCAP", "ADD1"})
#: Steps after which a walk through a graph ends, whatever the graph claims.
WALK_LIMIT = 64


class GraphIndex:
    """A graph's tensors by row, as lists; only lives while its view is made.

    Attributes:
        ids, op, type, ne, flags, buffer, view_src, params, src: of each tensor.
        row: by tensor id. node_rows, computed: rows of nodes, and of those not left out.
        readers: (row of the reader, source slot) by tensor id, among what is computed.
        compute_buffers: where results live. written: buffers that persist and are written.
    """

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
        for _ in range(WALK_LIMIT):
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
        while todo and len(found) < WALK_LIMIT:
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

    def is_weight(self, row: int) -> bool:
        """Whether a tensor is a leaf in a buffer that nothing here writes to."""
        return (
            self.op[row] == "NONE"
            and self.buffer[row] not in self.compute_buffers
            and self.buffer[row] not in self.written
        )


def from_logits(b: GraphIndex, row: int, logits: set[int]) -> bool:
    """Whether a tensor was made from logits (scores, candidates, probabilities)."""
    todo, seen = [row], {row}
    while todo and len(seen) < WALK_LIMIT * 4:
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


def _after_norm(b: GraphIndex, row: int) -> bool:
    """Whether a product is all that reads a norm: the output layer, not a query or key."""
    source = b.src[row][1]
    if source not in b.row or len(b.readers.get(source, ())) > 1:
        return False
    r = b.row[source]
    if b.op[r] == "MUL" and b.known(r):  # the norm's weights
        r = b.row[b.known(r)[0]]
    return b.op[r] in ("RMS_NORM", "NORM")


def logits_rows(b: GraphIndex) -> set[int]:
    """The output layer's product: weights times the last hidden state, flagged or read by none."""
    found: set[int] = set()
    for r in reversed(b.node_rows[-WALK_LIMIT:]):
        if b.op[r] != "MUL_MAT" or b.type[r] != TYPE_F32 or len(b.src[r]) < 2:
            continue
        weights = b.row.get(b.src[r][0])
        if weights is None or not b.is_weight(b.base(b.ids[weights])):
            continue
        chain = [r]
        for _ in range(8):  # scale, soft cap, bias
            nxt = [x for x, _s in b.readers.get(b.ids[chain[-1]], ()) if b.op[x] in _SCORE_WISE]
            if len(nxt) != 1 or b.ne[nxt[0]] != b.ne[r]:
                break
            chain.append(nxt[0])
        flagged = any(b.flags[x] & FLAG_OUTPUT for x in chain)
        terminal = not b.readers.get(b.ids[chain[-1]]) and _after_norm(b, r)
        if flagged or (not b.flags_used and terminal):
            found.update(chain)
            break
    return found

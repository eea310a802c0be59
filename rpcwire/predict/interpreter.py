"""Runs the lines of graphs.toml: one node a line, with the inputs, caches and weights it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcwire.models.model import Model
from rpcwire.models.placement import Placement
from rpcwire.predict.blocks import Line
from rpcwire.predict.builds import Build
from rpcwire.predict.families import SCALED_QUERY, SCALED_WEIGHTS, SOFTMAX_LAST, UNNORMED
from rpcwire.predict.nodes import Node
from rpcwire.predict.shape import Context, Shape, input_sizes, kv_cells, rotation_size, tensor_sizes

ROLES = {
    "tokens": "other_input",
    "mixed_tokens": "unused_input",
    "mixed_embd": "unused_input",
    "mixed_slots": "unused_input",
    "scale_rows": "other_input",
    "positions": "positions",
    "k_idxs": "kv_indices",
    "v_idxs": "kv_indices",
    "mask": "kv_mask",
    "k_rot": "kv_rotation",
    "v_rot": "kv_rotation",
    "out_ids": "output_ids",
    "state_copy": "recurrent_ids",
    "token_hidden": "embedding_in",
    "draft_hidden": "draft_hidden",
}


@dataclass(slots=True)
class Interpreter:
    """Nodes of one graph, appended line by line; a new one for each graph."""

    model: Model
    placement: Placement
    build: Build
    context: Context
    shape: Shape
    nodes: list[Node] = field(default_factory=list)
    leaves: dict[str, Node] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    shared: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = self.placement.tensor_names

    def _run(self, lines: tuple[Line, ...], names: dict[str, Node], layer: int, rows: int) -> None:
        """Append the nodes of a block; results go into `names`."""
        cells = self._cells(layer)
        sizes = tensor_sizes(
            self.model,
            self.context,
            layer,
            rows,
            cells=cells,
            sequences=self.shape.sequences,
        )
        repeated: list[Node] = []
        for line in lines:
            if line.op == "add_up":
                if not repeated:
                    continue
                names[line.name] = self._add_up(line, repeated, sizes)
                continue
            if line.repeat == "once":
                if line.name not in self.shared:
                    self._line(line, names, layer, sizes)
                    self.shared[line.name] = names[line.name]
                names[line.name] = self.shared[line.name]
                continue
            repeated = []
            for _ in range(self._repeats(line.repeat)):
                self._line(line, names, layer, sizes)
                if line.name in names:
                    repeated.append(names[line.name])

    def _add_up(self, line: Line, parts: list[Node], sizes: dict[str, int]) -> Node:
        """Sum the results of a repeated line one by one; a single one is copied."""
        total = parts[0]
        if len(parts) == 1:
            return self._append(Node(line.name, "cont", sizes[line.size], line.up, sources=parts))
        for part in parts[1:]:
            sources = [total, part]
            total = self._append(Node(line.name, "add", sizes[line.size], line.up, sources=sources))
        return total

    def _line(self, line: Line, names: dict[str, Node], layer: int, sizes: dict[str, int]) -> None:
        sources = [self._source(word, names, layer) for word in line.sources]
        plain = next((names[w] for w in line.sources if w in names), None)
        absent = [
            word
            for word, node in zip(line.sources, sources, strict=True)
            if node is None and word[0] in ".@" and not word.startswith(".attn_sinks")
        ]
        if absent or not self._holds(line.condition, layer):
            if plain is not None:
                names.setdefault(line.name, plain)
            return
        kept = [node for node in sources if node is not None]
        node = Node(f"{line.name}-{layer}", line.op, sizes.get(line.size, 0), sources=kept)
        if line.up:
            node.up = line.up
        if line.down:
            node.down = line.down
        if line.op == "view" and kept:
            node.base = kept[0].base or kept[0]
        if line.op == "inplace":
            target = self._source(line.target, names, layer) if line.target else kept[-1]
            if target is not None:
                node.base = target.base or target
        if line.op in ("norm", "norm_layer"):
            self._pin(node, layer)
        names[line.name] = self._append(node)

    def _append(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def _pin(self, node: Node, layer: int) -> None:
        """Keep a norm on its layer's device: small batches and fully offloaded runs do."""
        if self.shape.tokens < 32 or self.context.full_offload:
            node.fixed = self.placement.layer_device(layer)

    def _repeats(self, word: str) -> int:
        counts = {"": 1, "rollback": self.context.rollback, "used": self.model.experts_used}
        return counts[word]

    def _cells(self, layer: int) -> int:
        window = self.model.window if self.model.sliding[layer] else 0
        return kv_cells(self.build, self.context, self.shape.used, window)

    def _source(self, word: str, names: dict[str, Node], layer: int) -> Node | None:
        if word[0] in ".@":
            return self._weight(word, layer)
        if word[0] == "$":
            return self._input(word[1:], self.model.sliding[layer])
        if word[0] == "#":
            return self._cache(word[1:], layer)
        return names.get(word)

    def _has(self, word: str, layer: int) -> bool:
        return (f"blk.{layer}{word}" if word[0] == "." else word[1:]) in self.names

    def _weight(self, word: str, layer: int) -> Node | None:
        if not self._has(word, layer):
            return None
        name = f"blk.{layer}{word}" if word[0] == "." else word[1:]
        if name not in self.leaves:
            self.leaves[name] = Node(name, "weight", fixed=self.placement.device_of(name))
        return self.leaves[name]

    def _cache(self, word: str, layer: int) -> Node:
        name = f"cache_{word}_l{layer}"
        if name not in self.leaves:
            device = self.placement.layer_device(layer)
            if word in ("k", "v") and not self.context.offload_kv:
                device = self.placement.cpu
            self.leaves[name] = Node(name, "cache", fixed=device)
        return self.leaves[name]

    def _input(self, word: str, sliding: bool) -> Node:
        windowed = sliding and word in ("k_idxs", "v_idxs", "mask")
        name = f"{word}{'_swa' if windowed else ''}"
        if name not in self.leaves:
            sizes = input_sizes(self.model, self.build, self.context, self.shape, windowed)
            leaf = Node(name, "input", sizes[word], up=ROLES[word], fixed=self.placement.cpu)
            self.leaves[name] = leaf
        leaf = self.leaves[name]
        if word == "mask" and self.context.flash and self.build.casts_mask:
            return self._cast_mask(leaf)
        return leaf

    def _cast_mask(self, leaf: Node) -> Node:
        name = f"{leaf.name}_f16"
        if name not in self.leaves:
            node = Node(name, "cast", leaf.size // 2, "kv_mask", "kv_mask", sources=[leaf])
            self.leaves[name] = self._append(node)
        return self.leaves[name]

    def _holds(self, condition: str, layer: int) -> bool:
        if not condition:
            return True
        if condition[0] in ".@":
            return self._has(condition, layer)
        model, context = self.model, self.context
        rotation = self.build.rotation and layer < model.layers
        quantised = {"k": context.type_k not in (0, 1, 30), "v": context.type_v not in (0, 1, 30)}
        return {
            "rope": True,
            "rolls_back": context.rollback > 1,
            "view_v": self.build.core != "copy",
            "scale_query": model.arch in SCALED_QUERY and self.build.scales_query,
            "streams": context.streams > 1,
            "one_stream": context.streams == 1,
            "cast_k": context.type_k == 0,
            "cast_v": context.type_v == 0,
            "rotate_k": rotation and quantised["k"] and rotation_size(model.head_dim_k) > 0,
            "rotate_v": rotation and quantised["v"] and model.head_dim_v % 64 == 0,
            "no_gate": not self._has(".ffn_gate.weight", layer),
            "softmax_first": model.arch not in SOFTMAX_LAST,
            "softmax_last": model.arch in SOFTMAX_LAST,
            "norm_weights": model.arch not in UNNORMED,
            "clamp_weights": model.arch not in UNNORMED and self.build.clamp_weights,
            "scale_weights": model.arch in SCALED_WEIGHTS,
        }[condition]

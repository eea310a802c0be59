"""From a model, a placement and a batch to the graph that llama.cpp computes for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcwire.models.model import Model
from rpcwire.models.placement import Placement
from rpcwire.predict.blocks import Line, block
from rpcwire.predict.builds import Build
from rpcwire.predict.nodes import Graph, Node
from rpcwire.predict.shape import Context, Shape, input_sizes, kv_cells, rotation_size, tensor_sizes

#: Families whose graphs, block by block, were compared with recorded runs, per build.
LISTED = {
    "b11434": frozenset({"llama", "qwen3", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "b10688": frozenset({"llama", "qwen3moe", "qwen35"}),
    "0.3.30": frozenset({"llama", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "0.3.25": frozenset({"llama", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "0.3.19": frozenset({"llama", "qwen3moe", "gemma3", "gpt-oss"}),
    "0.3.16": frozenset({"llama", "qwen3moe", "gemma3", "gpt-oss"}),
    "0.3.8": frozenset({"llama", "gemma3"}),
}
#: Families that pick the output rows after the last layer instead of inside it, and where.
LATE_OUTPUTS = {"gpt-oss": "before", "qwen35": "after", "qwen35moe": "after"}
#: Families whose embeddings, and those whose queries, are scaled.
SCALED = frozenset({"gemma", "gemma2", "gemma3", "gemma3n", "gemma4"})
#: Families whose attention computes the key before the value in every build.
KEY_FIRST = frozenset({"gemma3", "gpt-oss"})
SCALED_QUERY = frozenset({"gemma", "gemma2", "gemma3"})
#: How routed experts are weighted: softmax before or after the choice, sum made one, scaled.
SOFTMAX_LAST = frozenset({"gpt-oss"})
UNNORMED = frozenset({"gpt-oss", "qwen2moe", "olmoe"})
SCALED_WEIGHTS = frozenset({"deepseek2", "glm4moe", "bailingmoe2", "dots1", "kimi-linear"})

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
class Builder:
    """Builds graphs of one model under one placement; a new one for each graph."""

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

    def graph(self) -> Graph:
        """Build the graph of the target model."""
        model, rows = self.model, self.shape.tokens
        names: dict[str, Node] = {}
        mixed = self.build.mixed_embeddings
        self._run(block("embedding_mixed.lines" if mixed else "embedding.lines"), names, 0, rows)
        if model.arch in SCALED:
            scale = "embedding_scale_rows.lines" if mixed else "embedding_scale.lines"
            self._run(block(scale), names, 0, rows)
        x = names["x"]
        for layer in range(model.layers):
            last = layer == model.layers - 1
            x = self._layer(layer, x, last and self._late_outputs() is None)
        return self._output(x)

    def draft_graph(self) -> Graph:
        """Build the graph of the multi-token-prediction head that follows the last layer."""
        layer = self.model.layers
        names: dict[str, Node] = {}
        rows = self.shape.tokens
        self._run(block("head.mtp.front"), names, layer, rows)
        x = self._layer(layer, names["x"], False)
        names = {"x": x}
        self._run(block("head.mtp.back"), names, layer, rows)
        hidden = names["x"]
        picked = self._rows(hidden, self.shape.outputs)
        logits = self._matmul_output(picked)
        sizes = 4 * self.model.vocab_size * self.shape.outputs
        padded = self._append(Node("logits_pad", "pad", sizes, sources=[logits]))
        samples: list[Node] = []
        for _ in range(self.context.n_slots):  # a chain for each slot, busy or not
            chain = padded
            for _ in range(3):
                chain = self._append(Node("logits_seq", "view", sizes, sources=[chain]))
                chain.base = padded
            top = self._append(Node("top_k", "topk", 40, down="sampling", sources=[chain]))
            sources = [chain, top]
            rows_of = self._append(Node("top_k_rows", "rows", 40, down="sampling", sources=sources))
            samples = samples or [rows_of, top]
        return Graph(self.nodes, None, hidden, samples, self._listed())

    def _late_outputs(self) -> str | None:
        """Where the output rows are picked: around the last norm, or None: in the last layer."""
        if self.model.arch in self.build.early_outputs:
            return None
        return LATE_OUTPUTS.get(self.model.arch)

    def _listed(self) -> bool:
        return self.model.arch in LISTED.get(self.build.name, frozenset())

    def _layer(self, layer: int, x: Node, pick_outputs: bool) -> Node:
        model, rows = self.model, self.shape.tokens
        residual = x
        names = {"x": x}
        if self.model.recurrent[layer]:
            self._run(block(f"recurrent.{self.build.recurrent}.lines"), names, layer, rows)
        else:
            self._attention(names, layer, rows)
        x = names["x"]
        sandwich = self._has(".post_attention_norm.weight", layer) and self._has(
            ".ffn_norm.weight", layer
        )
        if sandwich:
            x = self._norm(x, ".post_attention_norm.weight", layer, rows)
        if pick_outputs:
            rows = self.shape.outputs
            x, residual = self._rows(x, rows), self._rows(residual, rows)
        size = tensor_sizes(model, self.context, layer, rows)["hidden"]
        parallel = not self._has(".ffn_norm.weight", layer) and not self._has(
            ".post_attention_norm.weight", layer
        )
        if not parallel:
            x = self._append(Node(f"ffn_inp-{layer}", "add", size, sources=[x, residual]))
            residual = x
        norm = (
            ".ffn_norm.weight"
            if self._has(".ffn_norm.weight", layer)
            else (".post_attention_norm.weight")
        )
        f = self._norm(x, norm, layer, rows)
        x = self._feed_forward(f, layer, rows)
        if self._has(".post_ffw_norm.weight", layer):
            x = self._norm(x, ".post_ffw_norm.weight", layer, rows, pinned=False)
        return self._append(Node(f"l_out-{layer}", "add", size, sources=[x, residual]))

    def _attention(self, names: dict[str, Node], layer: int, rows: int) -> None:
        kind = "separate"
        if self._has(".attn_kv_a_mqa.weight", layer):
            kind = "latent"
        elif self._has(".attn_qkv.weight", layer):
            kind = "fused"
        elif self._gated(layer):
            kind = "gated"
        elif not self.build.value_first or self.model.arch in KEY_FIRST:
            kind = "separate_kv"
        self._run(block(f"attention.{kind}.front"), names, layer, rows)
        self._run(block("rotate.before"), names, layer, rows)
        flash = "flash" if self.context.flash else "plain"
        self._run(block(f"core.{self.build.core}.{flash}.lines"), names, layer, rows)
        self._run(block("rotate.after"), names, layer, rows)
        self._run(block(f"attention.{kind}.back"), names, layer, rows)

    def _gated(self, layer: int) -> bool:
        """The query matrix yields a gate besides the query (twice the heads)."""
        name = f"blk.{layer}.attn_q.weight"
        shape = self.placement.shape_of(name)
        wanted = self.model.heads[layer] * self.model.head_dim_k
        return len(shape) > 1 and wanted > 0 and shape[1] == 2 * wanted

    def _feed_forward(self, f: Node, layer: int, rows: int) -> Node:
        names = {"f": f, "x": f}
        if self._has(".ffn_gate_inp.weight", layer):
            self._run(block(f"ffn.{self.build.experts}.lines"), names, layer, rows)
            if self._has(".ffn_down_shexp.weight", layer):
                self._run(block("ffn.shared_expert.lines"), names, layer, rows)
        else:
            self._run(block(f"ffn.{self.build.ffn}.lines"), names, layer, rows)
        return names["x"]

    def _norm(self, x: Node, weight: str, layer: int, rows: int, pinned: bool = True) -> Node:
        size = tensor_sizes(self.model, self.context, layer, rows)["hidden"]
        n = self._append(Node(f"norm-{layer}", "norm", size, sources=[x]))
        if pinned:
            self._pin(n, layer)
        leaf = self._weight(weight, layer)
        if leaf is None:
            return n
        return self._append(Node(f"{weight[1:]}-{layer}", "mul", size, sources=[n, leaf]))

    def _rows(self, x: Node, rows: int) -> Node:
        size = 4 * self.model.hidden_size * self.model.streams * rows
        return self._append(Node("rows", "rows", size, sources=[x, self._input("out_ids", False)]))

    def _output(self, x: Node) -> Graph:
        model = self.model
        late = self._late_outputs()
        rows = self.shape.tokens if late == "after" else self.shape.outputs
        if late == "before":
            x = self._rows(x, rows)
        names = {"x": x}
        self._run(block("output.lines"), names, model.layers - 1, rows)
        x = hidden = names["x"]
        if late == "after":
            x = self._rows(x, self.shape.outputs)
        return Graph(self.nodes, self._matmul_output(x), hidden, [], self._listed())

    def _matmul_output(self, x: Node) -> Node:
        size = 4 * self.model.vocab_size * self.shape.outputs
        weight = self._weight("@output.weight", 0) or self._tied_output()
        logits = Node("result_output", "mm", size, down="logits", sources=[weight, x])
        return self._append(logits)

    def _tied_output(self) -> Node:
        device = self.placement.device_of("output.weight")
        return self.leaves.setdefault("output", Node("output.weight", "weight", fixed=device))

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

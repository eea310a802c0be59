"""From a model, a placement and a batch to the graph that llama.cpp computes for it."""

from __future__ import annotations

from rpcwire.predict.blocks import block
from rpcwire.predict.families import KEY_FIRST, LATE_OUTPUTS, LISTED, SCALED
from rpcwire.predict.interpreter import Interpreter
from rpcwire.predict.nodes import Graph, Node
from rpcwire.predict.shape import tensor_sizes


class Builder(Interpreter):
    """Builds graphs of one model under one placement; a new one for each graph."""

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
        if not self.context.draft_sampling:
            return Graph(self.nodes, logits, hidden, [], self._listed())
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

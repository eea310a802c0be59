"""Small GGUFs whose weights repeat, so that captures of a load compress.

dense, MoE, sliding window, and Qwen3.5-like with an MTP head. In the last one all layers add
nothing, so the next token depends on the last one alone; the head's projection decides how often
its drafts are right: it passes the token's embedding on (always), with noise (sometimes), or turned
round (never).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Quant

VOCABULARY = 1024
WIDTH = 256
_WORDS = "the quick brown fox jumps over lazy dog seven wizards pack jugs quiet rivers stone road"
_PERIOD = 48  #: rows after which weights repeat


class _Writer:
    def __init__(self, path: Path, arch: str, seed: int) -> None:
        self.gguf = gguf.GGUFWriter(path, arch)
        self.random = np.random.default_rng(seed)
        self._vocabulary()

    def _vocabulary(self) -> None:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
        kinds = [2, 3, 3, *[6] * 256]
        words = [f"\u2581{word}" for word in _WORDS.split()]
        letters = ["\u2581", *map(chr, range(97, 123))]
        tokens += words + letters
        tokens += [f"\u2581w{i}" for i in range(VOCABULARY - len(tokens))]
        kinds += [1] * (len(tokens) - len(kinds))
        self.gguf.add_tokenizer_model("llama")
        self.gguf.add_tokenizer_pre("default")
        self.gguf.add_token_list(tokens)
        self.gguf.add_token_scores([-float(i) for i in range(len(tokens))])
        self.gguf.add_token_types(kinds)
        self.gguf.add_bos_token_id(1)
        self.gguf.add_eos_token_id(2)
        self.gguf.add_unk_token_id(0)

    def common(self, layers: int, ff: int, heads: int, kv_heads: int, head: int) -> None:
        """The keys that every architecture has."""
        g = self.gguf
        g.add_vocab_size(VOCABULARY)
        g.add_context_length(32768)
        g.add_embedding_length(WIDTH)
        g.add_block_count(layers)
        g.add_feed_forward_length(ff)
        g.add_head_count(heads)
        g.add_head_count_kv(kv_heads)
        g.add_layer_norm_rms_eps(1e-6)
        g.add_rope_freq_base(1e6)
        g.add_key_length(head)
        g.add_value_length(head)

    def matrix(
        self, name: str, *shape: int, scale: float | None = None, period: int = _PERIOD
    ) -> None:
        """Random weights (rows ..., columns), repeating; `scale` 0: all zero."""
        columns = shape[-1]
        size = math.prod(shape)
        sigma = 1 / math.sqrt(columns) if scale is None else scale
        base = self.random.standard_normal(min(size, period * columns)) * sigma
        self.put(name, np.resize(base, size).reshape(shape))

    def put(self, name: str, values: Any, kind: Quant = Quant.Q8_0) -> None:
        """A tensor of given values."""
        data = np.asarray(values, np.float32)
        if kind is Quant.F32:
            self.gguf.add_tensor(name, data)
        else:
            self.gguf.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)

    def ones(self, name: str, size: int) -> None:
        """A norm that changes nothing."""
        self.put(name, np.ones(size), Quant.F32)

    def ends(self, *, tied: bool = False, scale: float = 1.0) -> None:
        """Embeddings, final norm, output."""
        whole = VOCABULARY  # equal rows would make equal logits, and a choice among them
        self.matrix("token_embd.weight", VOCABULARY, WIDTH, scale=scale, period=whole)
        self.ones("output_norm.weight", WIDTH)
        if not tied:
            self.matrix("output.weight", VOCABULARY, WIDTH, period=whole)

    def attention(self, b: str, heads: int, kv: int, head: int, *, q: int = 1, **how: Any) -> None:
        """Query (times `q`, with a gate), key, value, output."""
        self.matrix(f"{b}attn_q.weight", q * heads * head, WIDTH, **how)
        self.matrix(f"{b}attn_k.weight", kv * head, WIDTH, **how)
        self.matrix(f"{b}attn_v.weight", kv * head, WIDTH, **how)
        self.matrix(f"{b}attn_output.weight", WIDTH, heads * head, **how)

    def feed_forward(self, b: str, ff: int, **how: Any) -> None:
        """Gate, up, down."""
        self.matrix(f"{b}ffn_gate.weight", ff, WIDTH, **how)
        self.matrix(f"{b}ffn_up.weight", ff, WIDTH, **how)
        self.matrix(f"{b}ffn_down.weight", WIDTH, ff, **how)

    def done(self) -> None:
        """Write the file."""
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()


def dense(path: Path, layers: int = 6) -> None:
    """A llama."""
    w = _Writer(path, "llama", 1)
    w.common(layers, 512, 4, 2, 64)
    w.gguf.add_rope_dimension_count(64)
    w.ends()
    for i in range(layers):
        b = f"blk.{i}."
        w.ones(f"{b}attn_norm.weight", WIDTH)
        w.ones(f"{b}ffn_norm.weight", WIDTH)
        w.attention(b, 4, 2, 64)
        w.feed_forward(b, 512)
    w.done()


def moe(path: Path, layers: int = 4, experts: int = 8) -> None:
    """A qwen3moe."""
    w = _Writer(path, "qwen3moe", 2)
    w.common(layers, 512, 4, 2, 64)
    w.gguf.add_rope_dimension_count(64)
    w.gguf.add_expert_count(experts)
    w.gguf.add_expert_used_count(2)
    w.gguf.add_expert_feed_forward_length(256)
    w.ends()
    for i in range(layers):
        b = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            w.ones(f"{b}{name}.weight", WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            w.ones(f"{b}{name}.weight", 64)
        w.attention(b, 4, 2, 64)
        w.put(f"{b}ffn_gate_inp.weight", w.random.standard_normal((experts, WIDTH)) / 16, Quant.F32)
        w.matrix(f"{b}ffn_gate_exps.weight", experts, 256, WIDTH)
        w.matrix(f"{b}ffn_up_exps.weight", experts, 256, WIDTH)
        w.matrix(f"{b}ffn_down_exps.weight", experts, WIDTH, 256)
    w.done()


def sliding(path: Path, layers: int = 7, window: int = 256) -> None:
    """A gemma3: all but every sixth layer see a window only."""
    w = _Writer(path, "gemma3", 3)
    w.common(layers, 512, 4, 2, 64)
    w.gguf.add_rope_dimension_count(64)
    w.gguf.add_sliding_window(window)
    w.ends(tied=True, scale=0.06)
    for i in range(layers):
        b = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"):
            w.ones(f"{b}{name}.weight", WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            w.ones(f"{b}{name}.weight", 64)
        w.attention(b, 4, 2, 64)
        w.feed_forward(b, 512)
    w.done()


#: What the head's projection does to the embedding of the last token, and how much noise it adds.
ACCEPTANCE = {"always": (1.0, 0.0), "sometimes": (1.0, 0.04), "never": (-1.0, 0.0)}


def mtp(path: Path, accepted: str, layers: int = 8) -> None:
    """A qwen35 with one MTP layer; `accepted` is a key of ACCEPTANCE."""
    w = _Writer(path, "qwen35", 4)
    w.common(layers + 1, 512, 4, 2, 64)
    g = w.gguf
    g.add_rope_dimension_count(16)
    g.add_rope_dimension_sections([2, 3, 3, 0])
    g.add_ssm_conv_kernel(4)
    g.add_ssm_inner_size(512)
    g.add_ssm_state_size(64)
    g.add_ssm_time_step_rank(8)
    g.add_ssm_group_count(4)
    g.add_uint32("qwen35.full_attention_interval", 4)
    g.add_uint32("qwen35.nextn_predict_layers", 1)
    w.ends()
    for i in range(layers + 1):
        b = f"blk.{i}."
        w.ones(f"{b}attn_norm.weight", WIDTH)
        w.ones(f"{b}post_attention_norm.weight", WIDTH)
        if i % 4 == 3 or i == layers:
            w.attention(b, 4, 2, 64, q=2, scale=0)
            w.ones(f"{b}attn_q_norm.weight", 64)
            w.ones(f"{b}attn_k_norm.weight", 64)
        else:
            _linear_attention(w, b)
        w.feed_forward(b, 512, scale=0)
    sign, noise = ACCEPTANCE[accepted]
    b = f"blk.{layers}.nextn."
    project = np.zeros((WIDTH, 2 * WIDTH))
    project[:, :WIDTH] = sign * np.eye(WIDTH) + noise * w.random.standard_normal((WIDTH, WIDTH))
    w.put(f"{b}eh_proj.weight", project)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        w.ones(f"{b}{name}.weight", WIDTH)
    w.done()


def _linear_attention(w: _Writer, b: str) -> None:
    w.matrix(f"{b}attn_qkv.weight", 1024, WIDTH, scale=0)
    w.matrix(f"{b}attn_gate.weight", 512, WIDTH, scale=0)
    w.put(f"{b}ssm_conv1d.weight", w.random.standard_normal((1024, 4)) / 10, Quant.F32)
    w.put(f"{b}ssm_dt.bias", np.zeros(8), Quant.F32)
    w.put(f"{b}ssm_a", -np.ones(8), Quant.F32)
    w.matrix(f"{b}ssm_beta.weight", 8, WIDTH, scale=0)
    w.matrix(f"{b}ssm_alpha.weight", 8, WIDTH, scale=0)
    w.ones(f"{b}ssm_norm.weight", 64)
    w.matrix(f"{b}ssm_out.weight", WIDTH, 512, scale=0)


MODELS = {
    "dense": dense,
    "moe": moe,
    "sliding": sliding,
    **{f"mtp-{how}": (lambda path, how=how: mtp(path, how)) for how in ACCEPTANCE},
}


def model(name: str, folder: Path) -> Path:
    """The model of that name, made when it is not there yet."""
    path = folder / f"{name}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        MODELS[name](part)  # type: ignore[operator]
        part.rename(path)
    return path

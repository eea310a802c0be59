"""A Hugging Face config.json to the model that llama.cpp's converter would make of it.

The tensors are those of the GGUF file; their sizes follow from the shapes and an assumed
quantisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rpcwire.errors import ModelError
from rpcwire.models.header import TensorInfo, Value
from rpcwire.models.model import Model, build_model
from rpcwire.models.quants import DEFAULT_QUANT, QUANTS, parse_quant

#: `model_type` of config.json: llama.cpp's architecture.
ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_5_moe_text": "qwen35moe",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "gpt_oss": "gpt-oss",
    "phi3": "phi3",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "glm4": "glm4",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
}
MAX_CONFIG = 4 << 20  #: bytes


def read_config(data: bytes, quant: str = DEFAULT_QUANT) -> Model:
    """Make a model of the bytes of a config.json.

    Args:
        data: the file.
        quant: name of an assumed quantisation, a key of QUANTS.

    Raises:
        ModelError: not JSON, not the configuration of a known model, or makes no sense.
    """
    if len(data) > MAX_CONFIG:
        raise ModelError("config.json is too large to be one")
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"config.json is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ModelError("config.json holds no object")
    outer = config
    text = config.get("text_config")
    if isinstance(text, dict):
        config = {**config, **text}
    kind = str(config.get("model_type") or outer.get("model_type"))
    arch = ARCHITECTURES.get(kind)
    if arch is None:
        raise ModelError(f"config.json: model_type {kind[:40]!r} is not known; use its GGUF file")
    bits, _ = parse_quant(quant)
    reader = _Config(config, arch, quant.lower())
    tensors = tuple(reader.tensors())
    total = sum(tensor.bytes for tensor in tensors)
    notes = (f"{quant.lower()} assumed, {bits:g} bits a weight",)
    return build_model(reader.metadata(), tensors, total, "config", notes)


class _Config:
    """Numbers of one configuration under the names used here."""

    def __init__(self, config: dict[str, Any], arch: str, quant: str) -> None:
        self.config = config
        self.arch = arch
        self.bits, self.type = parse_quant(quant)
        # files that keep their experts in MXFP4 keep everything else at 16 bits
        self.expert_bits = self.bits
        if quant == "mxfp4":
            self.bits, self.type = QUANTS["f16"]
        self.hidden = self.number("hidden_size")
        self.layers = self.number("num_hidden_layers")
        self.heads = self.number("num_attention_heads")
        self.kv_heads = self.number("num_key_value_heads", self.heads)
        self.head_dim = self.number("head_dim", self.hidden // max(self.heads, 1))
        self.vocab = self.number("vocab_size")
        self.ffn = self.number("intermediate_size", 0)
        self.experts = self.number(
            "num_experts", self.number("num_local_experts", self.number("n_routed_experts", 0))
        )
        self.used = self.number("num_experts_per_tok", 0) if self.experts else 0
        self.expert_ffn = self.number("moe_intermediate_size", self.ffn) if self.experts else 0
        self.shared = self.number("shared_expert_intermediate_size", 0) or self.expert_ffn * (
            self.number("n_shared_experts", 0)
        )
        self.dense_first = self.number("first_k_dense_replace", 0)
        self.mtp = self.number("mtp_num_hidden_layers", self.number("num_nextn_predict_layers", 0))
        self.interval = self.number("full_attention_interval", 4)
        self.linear = self.arch in ("qwen3next", "qwen35", "qwen35moe")
        if not 0 < self.layers <= 1024 or self.heads < 1:
            raise ModelError(f"config.json: {self.layers} layers of {self.heads} heads")

    def number(self, key: str, default: int | None = None) -> int:
        """An integer of the configuration."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise ModelError(f"config.json: {key} is {str(value)[:40]}")
        return value

    def metadata(self) -> dict[str, Value]:
        """The keys that a GGUF file of this model would have."""
        prefix = {
            "block_count": self.layers + self.mtp,
            "nextn_predict_layers": self.mtp,
            "embedding_length": self.hidden,
            "feed_forward_length": self.ffn,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "context_length": self.number("max_position_embeddings", 4096),
            "vocab_size": self.vocab,
            "expert_count": self.experts,
            "expert_used_count": self.used,
            "expert_feed_forward_length": self.expert_ffn,
        }
        if self.arch == "deepseek2":
            rank = self.number("kv_lora_rank", 512)
            prefix["attention.head_count_kv"] = 1
            prefix["attention.key_length"] = rank + self.number("qk_rope_head_dim", 64)
            prefix["attention.value_length"] = rank
        window = self.config.get("sliding_window")
        if isinstance(window, int) and window > 0 and self.config.get("use_sliding_window", True):
            prefix["attention.sliding_window"] = window
        if self.linear:
            inner, groups, state = self._linear_sizes()
            prefix |= {
                "full_attention_interval": self.interval,
                "ssm.conv_kernel": self.number("linear_conv_kernel_dim", 4),
                "ssm.inner_size": inner,
                "ssm.state_size": state,
                "ssm.group_count": groups,
                "ssm.time_step_rank": self.number("linear_num_value_heads", 32),
            }
        values: dict[str, Value] = {f"{self.arch}.{key}": item for key, item in prefix.items()}
        values["general.architecture"] = self.arch
        if self.linear and self.arch != "qwen3next":
            values[f"{self.arch}.rope.dimension_sections"] = (11, 11, 10, 0)
        return values

    def _linear_sizes(self) -> tuple[int, int, int]:
        """Inner size, key heads and head size of linear attention."""
        state = self.number("linear_value_head_dim", 128)
        inner = self.number("linear_num_value_heads", 32) * state
        return inner, self.number("linear_num_key_heads", 16), state

    def tensors(self) -> Iterator[TensorInfo]:
        """The tensor table of the GGUF file, sizes estimated."""
        yield self._matrix("token_embd.weight", self.hidden, self.vocab)
        yield self._vector("output_norm.weight", self.hidden)
        if not self.config.get("tie_word_embeddings", self.arch.startswith("gemma")):
            yield self._matrix("output.weight", self.hidden, self.vocab)
        for layer in range(self.layers + self.mtp):
            head = layer >= self.layers
            yield from self._attention(f"blk.{layer}.", layer, head)
            yield from self._feed_forward(f"blk.{layer}.", layer)
            if head:
                yield self._matrix(
                    f"blk.{layer}.nextn.eh_proj.weight", 2 * self.hidden, self.hidden
                )
                for name in ("enorm", "hnorm", "shared_head_norm"):
                    yield self._vector(f"blk.{layer}.nextn.{name}.weight", self.hidden)

    def _attention(self, p: str, layer: int, head: bool) -> Iterator[TensorInfo]:
        hidden, dim = self.hidden, self.head_dim
        yield self._vector(p + "attn_norm.weight", hidden)
        if self.linear and not head and (layer + 1) % max(self.interval, 1):
            yield from self._linear_attention(p)
            return
        if self.arch == "deepseek2":
            yield from self._latent(p)
            return
        gated = 2 if self.linear else 1
        yield self._matrix(p + "attn_q.weight", hidden, gated * self.heads * dim)
        yield self._matrix(p + "attn_k.weight", hidden, self.kv_heads * dim)
        yield self._matrix(p + "attn_v.weight", hidden, self.kv_heads * dim)
        yield self._matrix(p + "attn_output.weight", self.heads * dim, hidden)
        if self.arch.startswith(("qwen3", "gemma3", "gemma4")):
            yield self._vector(p + "attn_q_norm.weight", dim)
            yield self._vector(p + "attn_k_norm.weight", dim)
        if self.arch in ("qwen2", "qwen2moe", "gpt-oss"):
            yield self._vector(p + "attn_q.bias", self.heads * dim)
            yield self._vector(p + "attn_k.bias", self.kv_heads * dim)
            yield self._vector(p + "attn_v.bias", self.kv_heads * dim)
        if self.arch == "gpt-oss":
            yield self._vector(p + "attn_output.bias", hidden)
            yield self._vector(p + "attn_sinks.weight", self.heads)

    def _linear_attention(self, p: str) -> Iterator[TensorInfo]:
        inner, groups, state = self._linear_sizes()
        mixed = inner + 2 * groups * state
        rank = self.number("linear_num_value_heads", 32)
        yield self._matrix(p + "attn_qkv.weight", self.hidden, mixed)
        yield self._matrix(p + "attn_gate.weight", self.hidden, inner)
        yield self._vector(p + "ssm_conv1d.weight", 4 * mixed)
        for name in ("ssm_dt.bias", "ssm_a"):
            yield self._vector(p + name, rank)
        for name in ("ssm_beta.weight", "ssm_alpha.weight"):
            yield self._matrix(p + name, self.hidden, rank)
        yield self._vector(p + "ssm_norm.weight", state)
        yield self._matrix(p + "ssm_out.weight", inner, self.hidden)

    def _latent(self, p: str) -> Iterator[TensorInfo]:
        rank = self.number("kv_lora_rank", 512)
        rope, nope = self.number("qk_rope_head_dim", 64), self.number("qk_nope_head_dim", 128)
        value, q_rank = self.number("v_head_dim", 128), self.number("q_lora_rank", 0)
        if q_rank:
            yield self._matrix(p + "attn_q_a.weight", self.hidden, q_rank)
            yield self._vector(p + "attn_q_a_norm.weight", q_rank)
            yield self._matrix(p + "attn_q_b.weight", q_rank, self.heads * (rope + nope))
        else:
            yield self._matrix(p + "attn_q.weight", self.hidden, self.heads * (rope + nope))
        yield self._matrix(p + "attn_kv_a_mqa.weight", self.hidden, rank + rope)
        yield self._vector(p + "attn_kv_a_norm.weight", rank)
        yield self._matrix(p + "attn_k_b.weight", nope, rank * self.heads)
        yield self._matrix(p + "attn_v_b.weight", rank, value * self.heads)
        yield self._matrix(p + "attn_output.weight", self.heads * value, self.hidden)

    def _feed_forward(self, p: str, layer: int) -> Iterator[TensorInfo]:
        hidden = self.hidden
        if self.arch.startswith("gemma"):
            yield self._vector(p + "post_attention_norm.weight", hidden)
            yield self._vector(p + "post_ffw_norm.weight", hidden)
        post = self.linear or self.arch == "gpt-oss"
        yield self._vector(
            p + ("post_attention_norm.weight" if post else "ffn_norm.weight"), hidden
        )
        if not self.experts or layer < self.dense_first:
            yield self._matrix(p + "ffn_gate.weight", hidden, self.ffn)
            yield self._matrix(p + "ffn_up.weight", hidden, self.ffn)
            yield self._matrix(p + "ffn_down.weight", self.ffn, hidden)
            return
        yield self._vector(p + "ffn_gate_inp.weight", hidden * self.experts, hidden, self.experts)
        for name, a, b in (("gate", hidden, self.expert_ffn), ("up", hidden, self.expert_ffn)):
            yield self._matrix(p + f"ffn_{name}_exps.weight", a, b, self.experts)
        yield self._matrix(p + "ffn_down_exps.weight", self.expert_ffn, hidden, self.experts)
        if self.arch == "gpt-oss":
            yield self._vector(p + "ffn_gate_inp.bias", self.experts)
            for name, size in (
                ("gate", self.expert_ffn),
                ("up", self.expert_ffn),
                ("down", hidden),
            ):
                yield self._vector(p + f"ffn_{name}_exps.bias", size * self.experts)
        if self.shared:
            yield self._matrix(p + "ffn_gate_shexp.weight", hidden, self.shared)
            yield self._matrix(p + "ffn_up_shexp.weight", hidden, self.shared)
            yield self._matrix(p + "ffn_down_shexp.weight", self.shared, hidden)
            if self.arch.startswith("qwen"):
                yield self._vector(p + "ffn_gate_inp_shexp.weight", hidden)

    def _matrix(self, name: str, *shape: int) -> TensorInfo:
        elements = 1
        for extent in shape:
            elements *= extent
        experts = "_exps" in name
        bits = self.expert_bits if experts else self.bits
        kind = self.type if bits == self.bits else QUANTS["mxfp4"][1]
        return TensorInfo(name, kind, shape, int(elements * bits / 8))

    @staticmethod
    def _vector(name: str, elements: int, *shape: int) -> TensorInfo:
        return TensorInfo(name, 0, shape or (elements,), 4 * elements)

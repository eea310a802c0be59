"""What a model is to the network: its dimensions, layers and tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rpcwire.errors import ModelError
from rpcwire.models.families import recurrent_layers, recurrent_sizes, sliding_layers
from rpcwire.models.header import Counted, TensorInfo, Value
from rpcwire.models.metadata import Metadata

#: Rotary positions in four sections: four numbers per token (`n_pos_per_embd`).
MROPE = frozenset(
    {"qwen2vl", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp", "paddleocr"}
)

_BLOCK = re.compile(r"^blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Model:
    """Metadata of one model, from a GGUF header or a config.json.

    Attributes:
        arch: llama.cpp's name of the architecture.
        name: the model's own name, or "".
        hidden_size: elements of a hidden state. vocab_size: rows of the output layer.
        layers: transformer layers, without multi-token-prediction heads.
        mtp_layers: prediction heads that follow them (`nextn_predict_layers`).
        heads, kv_heads: per layer, heads included.
        head_dim_k, head_dim_v: elements of one key and one value head; `_swa` where sliding-window
            layers differ.
        feed_forward: largest feed-forward length; expert_feed_forward: of one expert, or 0.
        experts, experts_used: routed experts and those that a token uses; 0 for dense models.
        recurrent, sliding: per layer, whether it keeps a recurrent state, has a sliding window.
        window: tokens of the sliding window, or 0.
        rope_sections: M-RoPE sections, or ().
        conv_state, ssm_state: F32 elements of the two recurrent states per layer and sequence.
        context_length: tokens the model was trained for.
        streams: residual streams of hyper-connection models; 1 otherwise.
        tensors: the tensor table. file_bytes: of all files together.
        source: "gguf" or "config".
        notes: what was assumed or is odd.
    """

    arch: str
    name: str
    hidden_size: int
    vocab_size: int
    layers: int
    mtp_layers: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    head_dim_k: int
    head_dim_v: int
    head_dim_k_swa: int
    head_dim_v_swa: int
    feed_forward: int
    expert_feed_forward: int
    experts: int
    experts_used: int
    recurrent: tuple[bool, ...]
    sliding: tuple[bool, ...]
    window: int
    rope_sections: tuple[int, ...]
    conv_state: int
    ssm_state: int
    context_length: int
    streams: int
    tensors: tuple[TensorInfo, ...]
    file_bytes: int
    source: str = "gguf"
    notes: tuple[str, ...] = field(default=())

    @property
    def all_layers(self) -> int:
        """Layers and prediction heads: what llama.cpp places on devices."""
        return self.layers + self.mtp_layers

    @property
    def positions(self) -> int:
        """Position numbers per token: 4 under M-RoPE, else 1."""
        return 4 if self.arch in MROPE or len(_nonzero(self.rope_sections)) > 1 else 1

    def k_gqa(self, layer: int) -> int:
        """Elements of one token's keys in `layer` (`n_embd_k_gqa`)."""
        dim = self.head_dim_k_swa if self.sliding[layer] else self.head_dim_k
        return dim * self.kv_heads[layer]

    def v_gqa(self, layer: int) -> int:
        """Elements of one token's values in `layer` (`n_embd_v_gqa`)."""
        dim = self.head_dim_v_swa if self.sliding[layer] else self.head_dim_v
        return dim * self.kv_heads[layer]

    @property
    def v_gqa_max(self) -> int:
        """Largest `v_gqa` of all layers, which the V index input of old builds is sized by."""
        return max(self.v_gqa(layer) for layer in range(self.all_layers))


def layer_of(name: str) -> int | None:
    """Number of the layer that a tensor belongs to, or None for input and output tensors."""
    match = _BLOCK.match(name)
    return int(match[1]) if match else None


def _nonzero(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value for value in values if value)


def build_model(
    values: dict[str, Value],
    tensors: tuple[TensorInfo, ...],
    file_bytes: int,
    source: str = "gguf",
    notes: tuple[str, ...] = (),
) -> Model:
    """Make a Model of GGUF metadata and a tensor table.

    Raises:
        ModelError: a key that llama.cpp requires is missing or makes no sense.
    """
    arch = values.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise ModelError("the file names no general.architecture: not a language model")
    meta = Metadata(values, arch)
    total = meta.integer("block_count")
    mtp = meta.integer("nextn_predict_layers", 0)
    if not 0 < total <= 4096 or mtp >= total:
        raise ModelError(f"{total} layers, {mtp} of them prediction heads: not a language model")
    layers = total - mtp
    hidden = meta.integer("embedding_length")
    heads = meta.per_layer("attention.head_count", total, 0)
    kv_heads = meta.per_layer("attention.head_count_kv", total, 0)
    if meta.raw("attention.head_count_kv") is None:
        kv_heads = heads
    widest = max(*heads, 1)
    dim_k = meta.integer("attention.key_length", hidden // widest)
    dim_v = meta.integer("attention.value_length", hidden // widest)
    window, sliding = sliding_layers(meta, layers, total)
    conv, ssm = recurrent_sizes(meta, hidden)
    sections = meta.raw("rope.dimension_sections")
    name = values.get("general.name")
    return Model(
        arch=arch,
        name=name if isinstance(name, str) else "",
        hidden_size=hidden,
        vocab_size=_vocabulary(meta, tensors),
        layers=layers,
        mtp_layers=mtp,
        heads=heads,
        kv_heads=kv_heads,
        head_dim_k=dim_k,
        head_dim_v=dim_v,
        head_dim_k_swa=meta.integer("attention.key_length_swa", dim_k),
        head_dim_v_swa=meta.integer("attention.value_length_swa", dim_v),
        feed_forward=meta.integer("feed_forward_length", 0),
        expert_feed_forward=meta.integer("expert_feed_forward_length", 0),
        experts=meta.integer("expert_count", 0),
        experts_used=meta.integer("expert_used_count", 0),
        recurrent=recurrent_layers(meta, layers, total, kv_heads),
        sliding=sliding,
        window=window,
        rope_sections=tuple(int(item) for item in sections if isinstance(item, int))
        if isinstance(sections, tuple)
        else (),
        conv_state=conv,
        ssm_state=ssm,
        context_length=meta.integer("context_length", 0),
        streams=max(meta.integer("hyper_connection.count", 1), 1),
        tensors=tensors,
        file_bytes=file_bytes,
        source=source,
        notes=notes,
    )


def _vocabulary(meta: Metadata, tensors: tuple[TensorInfo, ...]) -> int:
    """Rows of the output layer: of its tensor, of the (tied) embedding, or as the file says."""
    by_name = {tensor.name: tensor for tensor in tensors}
    for name in ("output.weight", "token_embd.weight"):
        if name in by_name and len(by_name[name].shape) > 1:
            return by_name[name].shape[1]
    tokens = meta.values.get("tokenizer.ggml.tokens")
    count = tokens.count if isinstance(tokens, Counted) else 0
    return meta.integer("vocab_size", count)

"""What a model is to the network: its dimensions, layers and tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rpcwire.errors import ModelError
from rpcwire.models.header import Counted, TensorInfo, Value

#: Architectures whose every layer keeps a recurrent state and no KV (`llm_arch_is_recurrent`).
RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
#: Recurrent layers follow `full_attention_interval`.
INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"})
#: A layer is recurrent where its `head_count_kv` is 0.
BY_KV_HEADS = frozenset(
    {
        "jamba",
        "granitehybrid",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "plamo2",
        "nemotron_h",
        "nemotron_h_moe",
        "bailingmoe3",
    }
)
#: Period of the sliding-window pattern and whether the dense layer comes first
#: (`load_swa_pattern`); a pattern in the file goes before it.
SWA_PATTERN = {
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gemma-embedding": (6, False),
    "gpt-oss": (2, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone4": (4, False),
    "exaone-moe": (4, False),
    "llama4": (4, False),
    "olmo2": (4, False),
    "afmoe": (4, False),
    "mellum": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
    "gemma4": (0, False),
    "step35": (0, False),
    "mimo2": (0, False),
}
#: Windows that llama.cpp assumes where the file names none.
SWA_DEFAULT = {"gemma2": 4096, "exaone4": 4096, "llama4": 8192, "smallthinker": 4096}
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

    @property
    def is_hybrid(self) -> bool:
        """Some layers keep a recurrent state, others a KV cache."""
        return any(self.recurrent) and not all(self.recurrent[: self.layers])

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

    def layer_tensors(self, layer: int) -> Iterator[TensorInfo]:
        """Tensors that belong to one layer."""
        prefix = f"blk.{layer}."
        return (tensor for tensor in self.tensors if tensor.name.startswith(prefix))


def layer_of(name: str) -> int | None:
    """Number of the layer that a tensor belongs to, or None for input and output tensors."""
    match = _BLOCK.match(name)
    return int(match[1]) if match else None


class Metadata:
    """Typed look-ups below the architecture's prefix; wrong types raise ModelError."""

    def __init__(self, values: dict[str, Value], arch: str) -> None:
        self.values = values
        self.arch = arch

    def raw(self, key: str) -> Value | None:
        """Value of `<arch>.<key>`, or None."""
        return self.values.get(f"{self.arch}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """One integer; the largest where the file has one per layer."""
        value = self.raw(key)
        if isinstance(value, tuple):
            value = max((item for item in value if isinstance(item, int)), default=None)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            raise ModelError(f"{self.arch}.{key} is {_show(value)}: the model cannot be read")
        return value

    def per_layer(self, key: str, layers: int, default: int) -> tuple[int, ...]:
        """One integer a layer; a single one holds for all."""
        value = self.raw(key)
        if isinstance(value, tuple):
            if len(value) < layers or not all(isinstance(item, int) for item in value):
                raise ModelError(f"{self.arch}.{key} has {len(value)} values for {layers} layers")
            return tuple(int(item) for item in value[:layers])
        return (self.integer(key, default),) * layers


def _show(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]


def _nonzero(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value for value in values if value)


def sliding_layers(meta: Metadata, layers: int, total: int) -> tuple[int, tuple[bool, ...]]:
    """Return the window and, per layer, whether it applies (heads never slide)."""
    arch = meta.arch
    window = meta.integer("attention.sliding_window", SWA_DEFAULT.get(arch, 0))
    if not window or arch not in SWA_PATTERN:
        return 0, (False,) * total
    period, dense_first = SWA_PATTERN[arch]
    pattern = meta.raw("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        flags = [bool(item) for item in pattern[:total]]
        return window, tuple(flags + [False] * (total - len(flags)))
    if isinstance(pattern, int):
        period = int(pattern)
    if dense_first:
        sliding = [period == 0 or layer % period != 0 for layer in range(layers)]
    else:
        sliding = [period == 0 or layer % period < period - 1 for layer in range(layers)]
    return window, tuple(sliding + [False] * (total - layers))


def recurrent_layers(
    meta: Metadata, layers: int, total: int, kv_heads: tuple[int, ...]
) -> tuple[bool, ...]:
    """Return, per layer, whether it keeps a recurrent state."""
    arch = meta.arch
    if arch in RECURRENT or arch == "falcon-h1":
        return (True,) * total
    if arch in INTERVAL:
        given = meta.raw("attention.recurrent_layers")
        if isinstance(given, tuple) and len(given) >= total:
            return tuple(bool(item) for item in given[:total])
        interval = max(meta.integer("full_attention_interval", 4), 1)
        return tuple(layer < layers and (layer + 1) % interval != 0 for layer in range(total))
    if arch in BY_KV_HEADS:
        return tuple(heads == 0 for heads in kv_heads)
    return (False,) * total


def recurrent_sizes(meta: Metadata, hidden: int) -> tuple[int, int]:
    """Return the F32 elements of a layer's convolution and recurrent state (`n_embd_r`, `_s`)."""
    shortconv = meta.integer("shortconv.l_cache", 0)
    if shortconv:
        return hidden * (shortconv - 1), 0
    wkv = meta.integer("wkv.head_size", 0)
    if wkv:
        return meta.integer("token_shift_count", 2) * hidden, hidden * wkv
    kernel, inner = meta.integer("ssm.conv_kernel", 0), meta.integer("ssm.inner_size", 0)
    state, groups = meta.integer("ssm.state_size", 0), meta.integer("ssm.group_count", 0)
    return max(kernel - 1, 0) * (inner + 2 * groups * state), state * inner


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

"""What differs between families: sliding windows and recurrent layers."""

from __future__ import annotations

from rpcwire.models.metadata import Metadata

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

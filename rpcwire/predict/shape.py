"""The batch that a graph computes, and the sizes that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from rpcwire.models.ggml_types import TYPES
from rpcwire.models.model import Model
from rpcwire.predict.builds import Build


@dataclass(frozen=True, slots=True)
class Context:
    """What stays the same for all passes of a run (llama-server's own words).

    Attributes:
        n_ctx: cells of the KV cache over all sequences. n_batch, n_ubatch: tokens.
        n_parallel: slots that work at once. n_slots: those that there are.
        unified: one KV buffer for all of them.
        flash: flash attention. type_k, type_v: ggml types of the KV cache.
        offload_kv: KV cache on the layers' devices. swa_full: full-size sliding-window cache.
        full_offload: every layer is offloaded.
        rollback: recurrent states kept per sequence; more than one with an MTP head.
        draft_sampling: the head's worker returns candidates instead of logits.
    """

    n_ctx: int = 4096
    n_batch: int = 2048
    n_ubatch: int = 512
    n_parallel: int = 1
    n_slots: int = 1
    unified: bool = True
    flash: bool = True
    type_k: int = 1
    type_v: int = 1
    offload_kv: bool = True
    swa_full: bool = False
    full_offload: bool = True
    rollback: int = 1
    draft_sampling: bool = True

    @property
    def streams(self) -> int:
        """Separate KV buffers."""
        return 1 if self.unified else self.n_parallel


@dataclass(frozen=True, slots=True)
class Shape:
    """One batch.

    Attributes:
        tokens: rows of it. outputs: rows whose logits are computed.
        used: KV cells in use after it, in the fullest sequence's buffer.
        sequences: sequences that it advances.
    """

    tokens: int = 1
    outputs: int = 1
    used: int = 1
    sequences: int = 1


def pad(value: int, to: int) -> int:
    """Round up to a multiple (`GGML_PAD`)."""
    return -(-value // to) * to


def kv_cells(build: Build, context: Context, used: int, window: int = 0) -> int:
    """KV cells that attention and its mask cover (`n_kv`); `window` for a sliding-window cache."""
    step = build.cells_flash if context.flash else build.cells_plain
    size = context.n_ctx if context.unified else context.n_ctx // max(context.n_parallel, 1)
    if window and not context.swa_full:
        cells = window * (context.n_slots if context.unified else 1) + context.n_ubatch
        size = min(size, pad(cells, step))
    return min(size, max(step, pad(min(used, size), step)))


def input_sizes(
    model: Model, build: Build, context: Context, shape: Shape, sliding: bool
) -> dict[str, int]:
    """Bytes of every graph input of one batch; `sliding` for the layers with a window."""
    tokens = shape.tokens
    hidden = 4 * model.hidden_size * tokens
    cells = kv_cells(build, context, shape.used, model.window if sliding else 0)
    element = build.mask_flash if context.flash else build.mask_plain
    per_value = 8 * tokens if context.flash else 8 * tokens * model.v_gqa_max
    streams = 1 if context.unified else max(shape.sequences, 1)  # each has rows of its own
    mask_rows = streams * pad(tokens // streams, build.mask_rows)
    return {
        "tokens": 4 * tokens,
        "mixed_tokens": 4 * tokens,
        "mixed_embd": hidden,
        "mixed_slots": 8 * tokens,
        "scale_rows": 4 * tokens,
        "positions": 4 * model.positions * tokens,
        "k_idxs": 8 * tokens,
        "v_idxs": per_value,
        "mask": element * cells * mask_rows,
        "k_rot": 4 * rotation_size(model.head_dim_k) ** 2,
        "v_rot": 4 * 64 * 64,
        "out_ids": 4 * shape.outputs,
        "state_copy": 4 * shape.sequences,
        "token_hidden": hidden,
        "draft_hidden": hidden,
    }


def rotation_size(head_dim: int) -> int:
    """Largest 64 * 2^j that divides the head dimension, 0 when 64 does not."""
    size = 0
    step = 64
    while head_dim and head_dim % step == 0:
        size, step = step, step * 2
    return size


def tensor_sizes(
    model: Model, context: Context, layer: int, rows: int, *, cells: int = 0, sequences: int = 1
) -> dict[str, int]:
    """Bytes of the tensors of one layer that may cross to another device, for `rows` rows."""
    hidden = 4 * model.hidden_size * model.streams * rows
    dim_k = model.head_dim_k_swa if model.sliding[layer] else model.head_dim_k
    query = 4 * model.heads[layer] * dim_k * rows
    key, value = 4 * model.k_gqa(layer) * rows, 4 * model.v_gqa(layer) * rows
    used, experts = model.experts_used, model.experts
    expert_ffn = 4 * (model.expert_feed_forward or model.feed_forward) * used * rows
    state = model.ssm_state
    mixed = model.conv_state // max(3, 1)
    return {
        "hidden": hidden,
        "hidden_rows": hidden,
        "double_hidden": 2 * hidden,
        "query": query,
        "gated_query": 2 * query,
        "key": key,
        "value": value,
        "qkv": query + key + value,
        "latent_q": query,
        "scores": 4 * model.heads[layer] * cells * rows,
        "cache_k": _cells_bytes(context.type_k, model.k_gqa(layer), cells),
        "cache_v": _cells_bytes(context.type_v, model.v_gqa(layer), cells),
        "ffn": 4 * model.feed_forward * rows,
        "router": 4 * experts * rows,
        "topk": 4 * (experts * (rows - 1) + used) if rows else 0,
        "expert_weights": 4 * used * rows,
        "expert_ffn": expert_ffn,
        "expert_out": 4 * model.hidden_size * used * rows,
        "conv_state": 4 * model.conv_state,
        "ssm_state": 4 * state,
        "conv_input": 4 * mixed * (3 + rows),
        "state_copy": 4 * sequences,
        "mixed": 4 * mixed * rows,
        "gates": 4 * 64 * rows,
        "delta": 4 * (state + mixed * rows),
        "inner": 4 * mixed // 2 * rows,
        "hidden_out_rows": hidden,
    }


def _cells_bytes(type_number: int, elements: int, cells: int) -> int:
    _, block, size = TYPES[type_number]
    return cells * -(-elements // block) * size

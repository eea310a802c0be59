"""Roles from shape, type and values alone, for a graph that was sent before the capture began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rpcwire.ggml.versions import REQUEST_HEADER
from rpcwire.runs.graphindex import INTEGER_TYPES, TYPE_F32, TYPE_I64

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

_TYPE_F16 = 1


def integers(frame: Frame) -> np.ndarray | None:
    """The values of an I32 or I64 upload: int64[n]; None when they were not captured.

    Where the snap length left only the first ones and they count up by one, so are the others
    taken to: a batch of one sequence.
    """
    tensor = frame.tensor
    if tensor is None or not tensor.ne:
        return None
    width = 8 if tensor.type == TYPE_I64 else 4
    if frame.content is not None:
        if len(frame.content) % width:
            return None
        return np.frombuffer(frame.content, dtype=f"<i{width}").astype(np.int64)
    if frame.data_size <= 0:
        return None
    seen = frame.head[frame.size - REQUEST_HEADER - frame.data_size :]
    first = np.frombuffer(seen[: len(seen) // width * width], dtype=f"<i{width}").astype(np.int64)
    if len(first) < 2 or (np.diff(first) != 1).any():
        return None
    values: np.ndarray = first[0] + np.arange(frame.data_size // width, dtype=np.int64)
    return values


def input_roles(frames: list[Frame]) -> list[str]:
    """Likeliest roles of the uploads of one step, in order.

    The activation comes first, then positions, indices (I64) and the mask, then output ids: the
    order of every builder so far. `unknown` where nothing fits.
    """
    roles: list[str] = []
    unused = _unused(frames)
    at = _positions_at(frames, unused)
    for i, f in enumerate(frames):
        t = f.tensor
        if i in unused:
            roles.append("unused_input")
            continue
        if t is None or not t.ne:
            roles.append("unknown")
            continue
        ne0, ne1 = int(t.ne[0]), int(t.ne[1])
        if t.type == TYPE_I64:
            roles.append("kv_indices")
        elif t.type in INTEGER_TYPES:
            before = "recurrent_ids" if i < at else "output_ids"
            roles.append("positions" if i == at else before)
        elif t.type == _TYPE_F16 or (t.type == TYPE_F32 and i > at and ne0 % 32 == 0):
            roles.append("kv_rotation" if ne0 == ne1 and ne0 <= 1024 and ne0 > 64 else "kv_mask")
        elif t.type == TYPE_F32:
            roles.append("activation")
        else:
            roles.append("unknown")
    return roles


def _positions_at(frames: list[Frame], unused: set[int]) -> int:
    """Index of the positions: the integers right before the KV indices, else the first ones."""
    integers_at: list[int] = []
    for i, f in enumerate(frames):
        if i in unused or f.tensor is None:
            continue
        if f.tensor.type == TYPE_I64 and integers_at:
            return integers_at[-1]
        if f.tensor.type in INTEGER_TYPES:
            integers_at.append(i)
    return integers_at[0] if integers_at else len(frames)


def _unused(frames: list[Frame]) -> set[int]:
    """Builds since 2026 upload three tensors of the embeddings' shape, of which two are not read.

    They come first: F32, F32, indices (I64), F32.
    """
    types = [f.tensor.type if f.tensor is not None else -1 for f in frames[:4]]
    return {0, 1, 2} if types == [TYPE_F32, TYPE_F32, TYPE_I64, TYPE_F32] else set()


def output_role(frame: Frame, hidden_size: int) -> str:
    """Likeliest role of a read whose graph is not known: the widest F32 row is the logits."""
    t = frame.tensor
    if t is None or not t.ne:
        return "unknown"
    if t.type in INTEGER_TYPES:
        return "sampling"
    if t.type != TYPE_F32:
        return "unknown"
    return "hidden_out" if hidden_size and int(t.ne[0]) <= hidden_size else "logits"

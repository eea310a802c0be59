"""What drafts and logits on the wire foretell: how much of a draft greedy sampling accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rpcwire.runs.graphindex import TYPE_F32, TYPE_I32

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.sequences import Block


def best_candidate(p: Pass) -> int | None:
    """The drafted token: of the candidates read after a draft step, the one that scores best."""
    ids: np.ndarray | None = None
    scores: np.ndarray | None = None
    for f in p.samples:
        content = f.response.content if f.response is not None else None
        if content is None or len(content) % 4:
            continue
        if f.tensor.type == TYPE_I32:
            ids = np.frombuffer(content, dtype="<i4")
        elif f.tensor.type == TYPE_F32:
            scores = np.frombuffer(content, dtype="<f4")
    if ids is None or not len(ids):
        return _best_logit(p)
    best = int(scores.argmax()) if scores is not None and len(scores) == len(ids) else 0
    return int(ids[best])


def _logits(frame: Frame | None) -> np.ndarray | None:
    """Logits that were read: float32[rows, vocabulary]; None when they were not captured."""
    content = frame.response.content if frame is not None and frame.response is not None else None
    vocabulary = int(frame.tensor.ne[0]) if frame is not None else 0
    if content is None or not vocabulary or len(content) % (4 * vocabulary):
        return None
    return np.frombuffer(content, dtype="<f4").reshape(-1, vocabulary)


def _best_logit(p: Pass) -> int | None:
    table = _logits(p.logits)
    return int(table[-1].argmax()) if table is not None and len(table) else None


def foretold(p: Pass, block: Block, drafted: list[int]) -> int | None:
    """Drafts that greedy sampling accepts: leading drafts equal to the best logit before them."""
    table = _logits(p.logits) if len(drafted) >= block.rows - 1 else None
    if table is None or len(table) < block.first + block.rows:
        return None
    best = table[block.first : block.first + block.rows].argmax(axis=1).tolist()
    accepted = 0
    for token, expected in zip(drafted[: block.rows - 1], best, strict=False):
        if token != expected:
            break
        accepted += 1
    return accepted

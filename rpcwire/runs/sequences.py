"""Sequences: which rows of a pass continue which request, told from positions.

llama-server puts the next row (or the draft to verify) of every generating slot into each batch,
then prompt rows. Positions are readable in the inputs, so a request is a run of rows that goes on
where it stopped; what goes back, or starts anew, is another request.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rpcwire.runs.passes import Pass

PROMPT, GENERATING = "prompt", "generating"
_LONGEST_DRAFT = 64  #: rows; a longer block is a prompt even where outputs are not seen


@dataclass(slots=True)
class Block:
    """Consecutive rows of one sequence in a pass: rows [first, first + rows) from `start`."""

    first: int
    rows: int
    start: int
    outputs: int
    stream: int


@dataclass(slots=True, eq=False)
class Request:
    """One completion, as far as the wire tells.

    Attributes:
        prompt_tokens: prompt rows computed. generated_tokens: tokens returned.
        draft_tokens: drafted rows verified; None without speculation. accepted_tokens likewise.
        start_ns, prompt_end_ns, end_ns: first byte of the first pass, last byte of the prompt's
            result, last byte of the last pass's result.
        open_prompt: which rows' results were asked for is not seen, so more prompt may follow.
        inferred: some figure is the likeliest reading rather than counted.
    """

    start_ns: int
    start_position: int
    stream: int
    prompt_tokens: int = 0
    generated_tokens: int = 0
    passes: int = 0
    open_prompt: bool = False
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    prompt_end_ns: int = 0
    end_ns: int = 0
    inferred: bool = False
    rounds: int = 0
    kind: str = PROMPT

    @property
    def prefill_s(self) -> float | None:
        """Seconds from the first byte of the prompt to the last byte of its result."""
        return (self.prompt_end_ns - self.start_ns) / 1e9 if self.prompt_end_ns else None

    @property
    def decode_s(self) -> float | None:
        """Seconds from the prompt's result to the last token's."""
        if not self.prompt_end_ns or self.generated_tokens < 2:
            return None
        return max(0, self.end_ns - self.prompt_end_ns) / 1e9


@dataclass(slots=True, eq=False)
class Round:
    """One verify pass of one sequence, until the next pass shows how much of it was kept.

    Attributes:
        start, rows: position of its first row, and how many; all but the first are drafts.
        foretold: drafts that greedy sampling accepts; None where drafts or logits do not show.
        replay: computed again, with the token sampled behind the kept drafts, after the context's
            state was restored (contexts that cannot roll back do so).
        base_generated: tokens generated before it.
    """

    start: int
    rows: int
    base_generated: int
    foretold: int | None = None
    replay: bool = False


@dataclass(slots=True, eq=False)
class Sequence:
    """A slot: the request it works on and the position it expects next.

    `shift` is what a context shift since the last pass may have moved that position by.
    """

    request: Request
    next: int
    stream: int
    last_pass: int
    last_cell: int = -1
    round: Round | None = None
    shift: int = 0

    def expects(self, start: int) -> bool:
        """Whether a block that starts here goes on with this sequence."""
        if self.round is not None and self.request.kind == GENERATING:
            return self.round.start < start <= self.round.start + self.round.rows
        if self.next < 0:  # positions were not captured so far
            return start > 0
        return start == self.next or (self.shift != 0 and start == self.next + self.shift)


def blocks(p: Pass, active: list[Sequence]) -> list[Block]:
    """Cut the rows of a pass into blocks, one a sequence.

    Args:
        p: the pass; without positions its rows are taken as one block of unknown start (-1).
        active: sequences that may continue, most recent first.
    """
    outputs = _output_flags(p)
    if p.positions is None or not len(p.positions):
        n = max(1, p.rows)
        return [Block(0, n, -1, _counts(outputs, [0, n])[0], 0)]
    positions = p.positions
    n = len(positions)
    if n == 1:
        streams = _streams(p, n)
        stream = int(streams[0]) if streams is not None else 0
        return [Block(0, 1, int(positions[0]), _counts(outputs, [0, 1])[0], stream)]
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    streams = _streams(p, n)
    cuts = {0, *breaks.tolist()}
    if streams is not None:
        cuts.update((np.flatnonzero(np.diff(streams) != 0) + 1).tolist())
    elif len(active) > 1 and n <= _LONGEST_DRAFT * 8:
        own = _expecting(active, int(positions[0]))
        for i in range(1, n):
            if i in cuts:
                own = _expecting(active, int(positions[i]))
            elif _starts_other(p, i, active, own):
                cuts.add(i)
                own = _expecting(active, int(positions[i]), own)
    edges = [*sorted(cuts), n]
    return [
        Block(
            a,
            b - a,
            int(positions[a]),
            asked,
            int(streams[a]) if streams is not None else 0,
        )
        for (a, b), asked in zip(pairwise(edges), _counts(outputs, edges), strict=True)
    ]


def _expecting(
    active: list[Sequence], position: int, other_than: Sequence | None = None
) -> Sequence | None:
    return next((s for s in active if s is not other_than and s.expects(position)), None)


def _starts_other(p: Pass, row: int, active: list[Sequence], own: Sequence | None) -> bool:
    """Whether a row that continues the one before by position belongs to another sequence."""
    assert p.positions is not None
    if own is None or _expecting(active, int(p.positions[row]), own) is None:
        return False
    seen = sees(p, row, int(p.cells[row - 1])) if p.cells is not None else None
    return seen is None or not seen


def sees(p: Pass, row: int, cell: int) -> bool | None:
    """Whether the mask lets a row attend to a cell; None when the mask does not tell."""
    for step in p.steps:
        f = step.mask
        if f is None or f.content is None or f.tensor is None:
            continue
        ne = f.tensor.ne
        width = 2 if f.tensor.type == 1 else 4
        if ne[3] > 1 or not 0 <= cell < ne[0]:
            return None
        at = (row * ne[0] + cell) * width
        value = f.content[at : at + width]
        if len(value) < width:
            return None
        return not any(value[:-1]) and not value[-1] & 0x7F
    return None


def _output_flags(p: Pass) -> np.ndarray | int:
    """Per row whether its result is asked for; or how many are, -1 unknown."""
    if p.output_ids is not None and p.rows > 1:
        flags = np.zeros(p.rows, dtype=bool)
        flags[p.output_ids[(p.output_ids >= 0) & (p.output_ids < p.rows)]] = True
        return flags
    return p.output_rows


def _counts(outputs: np.ndarray | int, edges: list[int]) -> list[int]:
    """Rows of each block whose result is asked for; -1 where that is not known."""
    if isinstance(outputs, np.ndarray):
        return [int(outputs[a:b].sum()) for a, b in pairwise(edges)]
    number = len(edges) - 1
    if number == 1 or outputs <= 0:
        return [outputs] * number
    if outputs == edges[-1]:
        return [b - a for a, b in pairwise(edges)]
    return [1 if outputs == number else -1] * number


def _streams(p: Pass, n: int) -> np.ndarray | None:
    """KV stream of each row: indices count through the streams one after the other."""
    view = next((s.view for s in p.steps if s.view and s.view.streams > 1), None)
    if view is None or p.cells is None or len(p.cells) < n or not view.kv_size:
        return None
    return p.cells[:n] // view.kv_size


def is_verify(block: Block, sequence: Sequence, speculative: bool) -> bool:
    """Whether several rows that continue a generating sequence are drafts to verify."""
    if block.rows < 2 or sequence.request.kind != GENERATING:
        return False
    if block.outputs >= 0:
        return block.outputs == block.rows
    return speculative and block.rows <= _LONGEST_DRAFT

"""Requests: prompt, generated, drafted and accepted tokens, counted from the passes of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rpcwire.runs.acceptance import best_candidate, foretold
from rpcwire.runs.sequences import (
    GENERATING,
    PROMPT,
    Block,
    Request,
    Round,
    Sequence,
    blocks,
    is_verify,
    sees,
)

if TYPE_CHECKING:
    from rpcwire.runs.passes import Pass

_STALE = 16  #: target passes after which a sequence that took no part is over
_REMEMBERED = 16  #: target passes whose positions a draft pass may repeat


class RequestTracker:
    """Follows the requests of one client through its passes, in order.

    `requests` holds all of them in order of start; the figures of one are final once a later
    request took its place or `finish` was called.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.speculative = False
        self._sequences: list[Sequence] = []
        self._target_count = 0
        self.bench = False  #: llama-bench: a prompt goes on in batches, each with a result
        self._doubted = False
        self._drafted: list[int] = []
        self._recent: list[tuple[np.ndarray | None, int, str]] = []
        self._agreed = [0, 0]  #: rounds where the logits foretold the acceptance, and all

    def target(self, p: Pass) -> str:
        """Take a pass of the target model; returns its phase."""
        self._target_count += 1
        if len(self._sequences) > 1:
            self._drop_stale()
        live = sorted(self._sequences, key=lambda s: -s.last_pass)
        used: list[Sequence] = []
        kinds = set()
        for block in blocks(p, live):
            sequence, kind = self._place(p, block, [s for s in live if s not in used])
            used.append(sequence)
            kinds.add(kind)
        phase = next(k for k in ("prefill", "verify", "decode") if k in kinds)
        self._recent.append((p.positions, p.rows, phase))
        del self._recent[:-_REMEMBERED]
        self._drafted.clear()
        return phase

    def draft(self, p: Pass) -> str:
        """Take a pass of a draft model or head; returns its phase."""
        self.speculative = True
        token = best_candidate(p) if p.rows == 1 else None
        if token is not None:
            self._drafted.append(token)
        for s in self._sequences:
            if s.request.draft_tokens is None:
                s.request.draft_tokens = s.request.accepted_tokens = 0
        phase = self._draft_phase(p)
        if phase == "prefill" and p.complete:  # answered: the first token is sampled after it
            for s in self._sequences:
                if s.request.kind == GENERATING and s.request.generated_tokens == 1:
                    s.request.prompt_end_ns = max(s.request.prompt_end_ns, p.end_ns)
        return phase

    def _draft_phase(self, p: Pass) -> str:
        """Prefill, if it holds rows of a prompt."""
        if p.positions is None or not len(p.positions):
            like = self._recent[-1] if self._recent else None
            repeats = like is not None and like[1] == p.rows and like[2] == "prefill"
            return "prefill" if repeats else "draft"
        for positions, _rows, phase in reversed(self._recent):
            if positions is not None and np.array_equal(positions, p.positions):
                return "prefill" if phase == "prefill" else "draft"
        if any(s.request.kind == PROMPT for s in self._sequences):
            return "prefill"
        ends = [s.request.start_position + s.request.prompt_tokens for s in self._sequences]
        return "prefill" if ends and int(p.positions.min()) < min(ends) else "draft"

    def doubt(self) -> None:
        """Something was lost: what is counted from here on may be short."""
        for s in self._sequences:
            s.request.inferred = True
        self._doubted = True

    def shift(self, p: Pass) -> None:
        """Take a K-shift: positions of a sequence moved down by what its values say."""
        if p.positions is None or not len(p.positions):
            return
        delta = int(p.positions.min())
        for s in self._sequences:
            s.shift = delta

    def continued(self, p: Pass) -> Request | None:
        """The request that a pass goes on with, so that state moved before it is its cost."""
        if p.positions is None or not len(p.positions):
            return self._sequences[-1].request if self._sequences else None
        start = int(p.positions[0])
        for s in sorted(self._sequences, key=lambda s: -s.last_pass):
            if s.expects(start) or (s.round is not None and s.round.start == start):
                return s.request
        return None

    def finish(self) -> None:
        """No more passes: settle what the last rounds kept."""
        for sequence in self._sequences:
            self._end(sequence)
        self._sequences.clear()

    # -- placing a block ---------------------------------------------------------------------

    def _place(self, p: Pass, block: Block, free: list[Sequence]) -> tuple[Sequence, str]:
        sequence = self._match(p, block, free)
        if sequence is None:
            again = self._again(block, free)
            if again is not None:
                return again, self._verify(p, block, again, replay=True)
            return self._begin(p, block)
        request = sequence.request
        if request.kind == PROMPT:
            return sequence, self._prompt(p, block, sequence)
        if block.rows > 1 and not is_verify(block, sequence, self.speculative):
            if request.generated_tokens == 1 and (self.bench or request.open_prompt):
                return sequence, self._prompt(p, block, sequence)
            return self._begin(p, block, sequence)
        return sequence, self._generate(p, block, sequence)

    def _match(self, p: Pass, block: Block, free: list[Sequence]) -> Sequence | None:
        if block.start < 0:
            return free[0] if free else None
        found = [s for s in free if s.stream == block.stream and s.expects(block.start)]
        if len(found) > 1:
            seeing = [s for s in found if s.last_cell >= 0 and sees(p, block.first, s.last_cell)]
            found = seeing or found
            found.sort(key=lambda s: (-s.last_pass, self._sequences.index(s)))
        if not found and not p.restored_before and block.start > 0:
            found = self._after_loss(block, free)
        return found[0] if found else None

    @staticmethod
    def _after_loss(block: Block, free: list[Sequence]) -> list[Sequence]:
        """Positions only ever jump ahead where the capture lost passes in between."""
        behind = [s for s in free if s.stream == block.stream and s.next < block.start]
        return behind if len(behind) == 1 == len(free) else []

    @staticmethod
    def _again(block: Block, free: list[Sequence]) -> Sequence | None:
        """The sequence whose last round is computed again from its first row."""
        for s in free:
            r = s.round
            if r is None or s.stream != block.stream:
                continue
            if (
                r.start == block.start
                and 1 < block.rows <= r.rows
                and (block.outputs in (block.rows, -1))
            ):
                return s
        return None

    # -- what a block does to a request --------------------------------------------------------

    def _begin(self, p: Pass, block: Block, old: Sequence | None = None) -> tuple[Sequence, str]:
        one_per_stream = any(x.view is not None and x.view.streams > 1 for x in p.steps)
        replaced = [
            s for s in self._sequences if s is old or (one_per_stream and s.stream == block.stream)
        ]
        for s in replaced:
            self._end(s)
            self._sequences.remove(s)
        request = Request(p.start_ns, max(0, block.start), block.stream)
        request.inferred = block.start < 0 or self._doubted
        self._doubted = False
        if self.speculative:
            request.draft_tokens = request.accepted_tokens = 0
        self.requests.append(request)
        sequence = Sequence(request, block.start, block.stream, self._target_count)
        self._sequences.append(sequence)
        if self._entered_late(p, block):
            request.kind = GENERATING  # its prompt, and its first token, came before the capture
            request.inferred = True
            request.generated_tokens = 1
            request.prompt_end_ns = p.start_ns
            return sequence, self._generate(p, block, sequence)
        return sequence, self._prompt(p, block, sequence)

    @staticmethod
    def _entered_late(p: Pass, block: Block) -> bool:
        """Whether a capture that began in mid-run shows a request that was already generating."""
        if p.context.is_new or p.ordinal or block.start <= 0:
            return False
        return block.rows in (1, block.outputs)

    def _prompt(self, p: Pass, block: Block, s: Sequence) -> str:
        request = s.request
        self._bridge(block, s)
        request.prompt_tokens += block.rows
        request.kind = PROMPT
        request.generated_tokens = 0
        if block.outputs:
            request.kind = GENERATING
            request.generated_tokens = 1
            request.prompt_end_ns = p.end_ns
            request.open_prompt = block.outputs < 0
        self._advance(p, block, s)
        return "prefill"

    def _generate(self, p: Pass, block: Block, s: Sequence) -> str:
        request = s.request
        if request.open_prompt:
            request.open_prompt = False
            request.inferred = True
        if s.round is not None:
            self._resolve(s, block.start - s.round.start if block.start >= 0 else 1)
        self._bridge(block, s)
        if block.rows > 1:
            return self._verify(p, block, s)
        request.generated_tokens += 1
        self._advance(p, block, s)
        return "decode"

    def _bridge(self, block: Block, s: Sequence) -> None:
        """Count what lost passes did: as many tokens as the position moved on."""
        lost = block.start - s.next if 0 <= s.next < block.start else 0
        if not lost or s.shift:
            return
        request = s.request
        request.inferred = True
        if request.kind == PROMPT:
            request.prompt_tokens += lost
        else:
            request.generated_tokens += lost

    def _verify(self, p: Pass, block: Block, s: Sequence, replay: bool = False) -> str:
        request = s.request
        self.speculative = True
        request.accepted_tokens = request.accepted_tokens or 0
        base = s.round.base_generated if replay and s.round else request.generated_tokens
        if not replay:
            request.draft_tokens = (request.draft_tokens or 0) + block.rows - 1
            request.rounds += 1
        expected = None if replay else foretold(p, block, self._drafted)
        s.round = Round(block.start, block.rows, base, expected, replay)
        self._advance(p, block, s)
        return "verify"

    def _advance(self, p: Pass, block: Block, s: Sequence) -> None:
        request = s.request
        request.passes += 1
        s.shift = 0
        request.end_ns = max(request.end_ns, p.end_ns)
        s.last_pass = self._target_count
        if block.start >= 0:
            s.next = block.start + block.rows
        elif s.next >= 0:
            s.next += block.rows
        if p.cells is not None and block.first + block.rows <= len(p.cells):
            s.last_cell = int(p.cells[block.first + block.rows - 1])

    # -- acceptance ----------------------------------------------------------------------------

    def _resolve(self, s: Sequence, advance: int) -> None:
        round_, s.round = s.round, None
        if round_ is None:
            return
        s.next = (
            max(s.next, round_.start + advance)
            if advance > round_.rows
            else (round_.start + advance)
        )
        advance = min(max(1, advance), round_.rows)
        if round_.foretold is not None:
            self._agreed[0] += round_.foretold == advance - 1
            self._agreed[1] += 1
        request = s.request
        kept = max(0, advance - 1 - round_.replay)  # a replay ends with the token sampled before
        request.accepted_tokens = (request.accepted_tokens or 0) + kept
        request.generated_tokens = round_.base_generated + advance

    def _end(self, s: Sequence) -> None:
        """The last round shows no successor: take the likeliest acceptance."""
        round_ = s.round
        if round_ is None:
            return
        request = s.request
        request.inferred = True
        agreed, tried = self._agreed
        # A request mostly ends at its limit, and a draft never goes beyond that: all was kept.
        accepted = round_.rows - 1
        if round_.foretold is not None and agreed >= 0.9 * tried:
            accepted = round_.foretold
        self._resolve(s, accepted + 1)

    def _drop_stale(self) -> None:
        for s in [s for s in self._sequences if self._target_count - s.last_pass > _STALE]:
            self._end(s)
            self._sequences.remove(s)

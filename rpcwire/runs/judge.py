"""What a pass was: warm-up, prompt, tokens, drafts; and what state moved before it costs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rpcwire.runs.passes import PER_TOKEN, TIMED
from rpcwire.runs.sequences import GENERATING

if TYPE_CHECKING:
    from rpcwire.runs.passes import Context, Group, Pass, PassBuilder
    from rpcwire.runs.requests import RequestTracker

_MOST_JUDGED = 64  #: target passes of which a part may come late, held back by a loss


class Judge:
    """Judges the passes of one client, in order of their start.

    Attributes:
        lossy: something of the client's connections was not captured.
    """

    def __init__(self, passes: PassBuilder, tracker: RequestTracker) -> None:
        self.lossy = False
        self._passes = passes
        self._tracker = tracker
        self._judged: deque[Pass] = deque(maxlen=_MOST_JUDGED)

    def weigh(self, state: Group, p: Pass) -> None:
        """State moved before a pass that goes on with a request is that request's cost."""
        request = self._tracker.continued(p)
        if request is None:
            return
        checkpoint = request.generated_tokens == 1 == p.rows and not self._tracker.speculative
        if request.kind == GENERATING and checkpoint:  # of the prompt: llama-server's time for it
            request.prompt_end_ns = max(request.prompt_end_ns, state.end_ns)
            state.weight = PER_TOKEN
        else:
            state.weight = TIMED if request.kind == GENERATING else PER_TOKEN

    def phase(self, p: Pass) -> str:
        """The phase of a pass whose successor is known, or cannot come."""
        if p.is_shift:
            self._tracker.shift(p)
            return "other"
        warm = bool(p.clears)
        if p.next is not None:
            # Without positions: two rows that a prompt follows are llama-server's.
            unseen = p.next.positions is None
            warm = (warm or p.rows == 2 <= p.next.rows) if unseen else p.next.at_start
        if p.may_warm_up(self.lossy) and warm:
            p.context.warmups += 1
            self._look_for_bench(p)
            return "warmup"
        if p.ordinal == 0:
            self._look_for_bench(p)
        if p.context.first_use < 0:
            p.context.first_use = p.id
        if self._is_draft(p.context):
            return self._tracker.draft(p)
        for q in self._judged:
            if q.is_other_part(p):
                return q.group.phase
        if self.lossy:
            self._judged.append(p)
        return self._tracker.target(p)

    def _look_for_bench(self, p: Pass) -> None:
        """A new context's first pass: llama-server clears the cache after it, llama-bench not."""
        context = p.context
        if context.is_head:
            return
        self._tracker.bench = context.is_new and context.cached and not p.clears and not self.lossy

    def _is_draft(self, context: Context) -> bool:
        """A head; or the smaller of two models in use at once, the later one if they are equal."""
        context.is_draft |= context.is_head or any(
            not c.is_head
            and c is not context
            and c.alive
            and c.answers
            and c.first_use >= 0
            and (c.nodes, -c.first_use) > (context.nodes, -context.first_use)
            for c in self._passes.contexts.values()
        )
        return context.is_draft

"""How a run goes while it is recorded: figures for one live line."""

from __future__ import annotations

import time
from typing import Any

from rpcwire.runs.words import GENERATION
from rpcwire.session import Session


class Pulse:
    """Reads the figures off a session now and then.

    Args:
        session: that decodes what is recorded.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last = time.monotonic()
        self._before = (0, 0, 0, 0, 0)
        self._phase = ""
        self._phases: dict[str, int] = {}

    def beat(self, period_s: float) -> dict[str, Any] | None:
        """The figures since the last beat, or None when that is less than `period_s` ago.

        Returns:
            phase, requests, tokens_per_s, kb_up, kb_down and round_trips per token (None without
            tokens), mb_s (both directions), bytes (so far), missing (bytes not captured).
        """
        now = time.monotonic()
        elapsed = now - self._last
        if elapsed < period_s:
            return None
        self._last = now
        session = self._session
        totals = session.run.totals
        phases = totals.by_phase()
        generation = [phases[p] for p in GENERATION if p in phases]
        tokens = sum(r.generated_tokens for r in session.run.requests)
        now_at = (
            tokens,
            sum(t.up for t in generation),
            sum(t.down for t in generation),
            sum(t.round_trips for t in generation),
            sum(half.next for c in session.connections for half in c.sides),
        )
        new = [a - b for a, b in zip(now_at, self._before, strict=True)]
        busiest = {k: t.up + t.down for k, t in phases.items()}
        grown = {k: n - self._phases.get(k, 0) for k, n in busiest.items()}
        if any(grown.values()):
            self._phase = max(grown, key=lambda k: grown[k])
        self._phases, self._before = busiest, now_at
        made = new[0]
        return {
            "phase": self._phase,
            "requests": len(session.run.requests),
            "tokens_per_s": made / elapsed if made > 0 else None,
            "kb_up": new[1] / made / 1e3 if made > 0 else None,
            "kb_down": new[2] / made / 1e3 if made > 0 else None,
            "round_trips": new[3] / made if made > 0 else None,
            "mb_s": new[4] / elapsed / 1e6,
            "bytes": now_at[4],
            "missing": sum(half.missing for c in session.connections for half in c.sides),
        }

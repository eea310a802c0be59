"""One run captured at both ends: how long the wire took, and how long each end, exactly.

What a worker's capture shows between a request's last byte and its answer's first is the worker's
own time; what the client's capture shows is that and the way there and back. Both are differences
of one clock, so that nothing depends on the clocks being set alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rpcwire.compare.trace import (
    ANSWERED,
    ANSWERED_ALL,
    IN_TOKENS,
    OFFSET,
    SENT,
    SENT_ALL,
    ConnectionTrace,
    TracedEvidence,
)

if TYPE_CHECKING:
    from rpcwire.findings import Facts

#: Frames that must agree, and part of the stream bytes in connections that do.
_FEW, _SHARE = 4, 0.5


@dataclass(frozen=True, slots=True)
class BothEnds:
    """Exact times of a run captured at both ends.

    Attributes:
        client_side: which capture was taken nearer to the client, "a" or "b".
        connections: matched. answers: requests with answers in both captures.
        tokens: generated tokens that per-token figures divide by.
        ms: of a token. client_ms, wire_ms, worker_ms: its parts; None without tokens.
        rtt_min_ms, rtt_median_ms: of the wire, over all answers (transfer of the answer's first
            byte and the request's last included).
        clock_offset_ms: how far the worker side's clock is ahead, if both ways take the same.
    """

    client_side: str
    connections: int
    answers: int
    tokens: int
    ms: float | None
    client_ms: float | None
    wire_ms: float | None
    worker_ms: float | None
    rtt_min_ms: float
    rtt_median_ms: float
    clock_offset_ms: float

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        return {name: getattr(self, name) for name in self.__slots__}


def both_ends(a: Facts, b: Facts) -> BothEnds | None:
    """The exact times, if two captures are of one run at two places; else None."""
    assert isinstance(a.evidence, TracedEvidence)
    assert isinstance(b.evidence, TracedEvidence)
    pairs = _pairs(a.evidence.traces, b.evidence.traces)
    matched = sum(x.bytes for x, _ in pairs)
    whole = min(
        sum(t.bytes for t in a.evidence.traces.values()),
        sum(t.bytes for t in b.evidence.traces.values()),
    )
    if not pairs or matched < _SHARE * whole:
        return None
    joined = [rows for x, y in pairs if len(rows := _join(x.table(), y.table()))]
    if not joined:
        return None
    rows = np.concatenate(joined)
    here, there = rows[:, :6], rows[:, 6:]
    if np.array_equal(_wait(here), _wait(there)):
        return None  # the same capture twice
    # The client's side waits longer: the way there and back is in it.
    if _wait(here).sum() < _wait(there).sum():
        here, there = there, here
        side, facts = "b", b
    else:
        side, facts = "a", a
    return _times(here, there, side, len(pairs), facts)


def _pairs(
    a: dict[int, ConnectionTrace], b: dict[int, ConnectionTrace]
) -> list[tuple[ConnectionTrace, ConnectionTrace]]:
    """Connections with the same frames; several alike are paired in order."""
    waiting: dict[bytes, list[ConnectionTrace]] = {}
    for trace in b.values():
        if trace.frames >= _FEW:
            waiting.setdefault(trace.fingerprint, []).append(trace)
    found = []
    for trace in a.values():
        same = waiting.get(trace.fingerprint)
        if same and trace.frames >= _FEW:
            found.append((trace, same.pop(0)))
    return found


def _join(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n, 12]: the rows of both tables whose request stands at the same stream offset."""
    _, i, j = np.intersect1d(x[:, OFFSET], y[:, OFFSET], return_indices=True)
    return np.hstack((x[i], y[j]))


def _wait(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time in ns from each request's last byte to its answer's first."""
    waits: NDArray[np.int64] = np.maximum(0, rows[:, ANSWERED] - rows[:, SENT_ALL])
    return waits


def _times(
    client: NDArray[np.int64], worker: NDArray[np.int64], side: str, pairs: int, facts: Facts
) -> BothEnds:
    wire = np.maximum(0, _wait(client) - _wait(worker))
    up = worker[:, SENT_ALL] - client[:, SENT_ALL]
    down = client[:, ANSWERED] - worker[:, ANSWERED]
    token = facts.analysis.per_token
    tokens, ms = token.tokens, token.ms
    inside = (client[:, IN_TOKENS] != 0) & (worker[:, IN_TOKENS] != 0)
    parts: tuple[float | None, float | None, float | None] = (None, None, None)
    if tokens and ms is not None and inside.any():
        computed = float(_wait(worker)[inside].sum()) / tokens / 1e6
        arriving = (client[:, ANSWERED_ALL] - client[:, ANSWERED])[inside].sum()
        sending = (client[:, SENT_ALL] - client[:, SENT])[inside].sum()
        moved = float(wire[inside].sum() + arriving + sending) / tokens / 1e6
        total = computed + moved
        if total > ms:  # several requests wait for one pass
            computed, moved = computed * ms / total, moved * ms / total
        parts = (ms - computed - moved, moved, computed)
    return BothEnds(
        client_side=side,
        connections=pairs,
        answers=len(client),
        tokens=tokens,
        ms=ms,
        client_ms=parts[0],
        wire_ms=parts[1],
        worker_ms=parts[2],
        rtt_min_ms=float(wire.min()) / 1e6,
        rtt_median_ms=float(np.median(wire)) / 1e6,
        clock_offset_ms=float(np.median(up) - np.median(down)) / 2e6,
    )

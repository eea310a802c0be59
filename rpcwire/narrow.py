"""Accounts of a part of a run: frames, passes and tokens of a window only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rpcwire.runs.distribution import Distribution
from rpcwire.runs.totals import TRIVIAL, Totals, WorkerTimes

if TYPE_CHECKING:
    from rpcwire.analysis import RequestInfo
    from rpcwire.ggml.frame import Frame
    from rpcwire.reading import Reading
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.sequences import Request

#: Requests that may still change when a pass is judged.
_RECENT = 64


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a request had counted at some moment."""

    prompt: int = 0
    generated: int = 0
    passes: int = 0
    drafted: int | None = None
    accepted: int | None = None


class Narrow(Totals):
    """Totals that leave out what lies outside the window of a reading.

    Made before the reading begins; takes the place of the session's totals. Tokens are those that
    the passes of the window added.

    Attributes:
        missing, truncated: of the frames counted, in bytes.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._reading = reading
        self._run = reading.session.run
        self._before: dict[int, _Counts] = {}
        self._after: dict[int, _Counts] = {}
        self._passes: dict[str, list[int]] = {}
        self.missing = self.truncated = 0
        self._run.totals = self

    def release(self, frames: Iterable[Frame]) -> None:
        """Count the frames that began in the window."""
        holds = self._reading.window.holds
        inside = []
        for frame in frames:
            if holds(frame.time_ns):
                inside.append(frame)
            elif frame.request is not None and frame.command in TRIVIAL:
                self._path(frame, frame.request)
        super().release(inside)
        self.missing += sum(f.missing for f in inside)
        self.truncated += sum(f.truncated for f in inside)

    def _path(self, response: Frame, request: Frame) -> None:
        """Take the round-trip time of the path from outside of the window: it is the same."""
        worker = self.workers.setdefault(response.connection.server, WorkerTimes())
        times = worker.trivial.setdefault(response.command, Distribution())
        times.add(max(0, response.time_ns - request.end_ns))

    def round_trip(self, frame: Frame) -> None:
        """Count a round trip if its request left in the window."""
        if self._reading.window.holds(frame.time_ns):
            super().round_trip(frame)

    def passed(self, p: Pass) -> None:
        """Take note of a pass, inside or outside."""
        window = self._reading.window
        if p.start_ns > window.high:
            return
        seen = self._before if p.start_ns < window.low else self._after
        for client in self._run.clients:
            for r in client.tracker.requests[-_RECENT:]:
                seen[id(r)] = _Counts(
                    r.prompt_tokens, r.generated_tokens, r.passes, r.draft_tokens, r.accepted_tokens
                )
        if seen is self._after:
            counted = self._passes.setdefault(p.group.phase, [0, 0])
            counted[0] += 1
            counted[1] += p.rows

    def passes(self, phase: str) -> tuple[int, int]:
        """Passes of a phase in the window, and their rows."""
        passes, rows = self._passes.get(phase, (0, 0))
        return passes, rows

    def clipped(self) -> list[Request]:
        """The requests as if they had run in the window only, for rates.

        `generated_tokens` is one more than those of the window that came after the first.
        """
        window = self._reading.window
        found = []
        for r in self._run.requests:
            before, after = self._counts(r)
            first = 1 if not before.generated and after.generated else 0
            generated = after.generated - before.generated - first
            if not generated:
                continue
            end = min(r.end_ns, window.high)
            start = min(max(r.prompt_end_ns, window.low), end) if r.prompt_end_ns else 0
            found.append(
                replace(r, generated_tokens=generated + 1, prompt_end_ns=start, end_ns=end)
            )
        return found

    def keep(self, number: int, request: Request, info: RequestInfo) -> bool:
        """Narrow what is said of a request; False when it has no part in the window."""
        wanted = self._reading.request
        before, after = self._counts(request)
        if after.passes == before.passes or (wanted is not None and number != wanted):
            return False
        if wanted is not None and self._whole(request):
            return True
        info.prompt_tokens = after.prompt - before.prompt
        info.generated_tokens = after.generated - before.generated
        info.passes = after.passes - before.passes
        info.draft_tokens = _less(after.drafted, before.drafted)
        info.accepted_tokens = _less(after.accepted, before.accepted)
        window = self._reading.window
        if request.prompt_end_ns:
            end = min(request.prompt_end_ns, window.high)
            info.prefill_s = max(0, end - max(request.start_ns, window.low)) / 1e9
            begin = max(request.prompt_end_ns, window.low)
            spent = max(0, min(request.end_ns, window.high) - begin)
            info.decode_s = spent / 1e9 if info.decode_s is not None else None
        return True

    def _whole(self, request: Request) -> bool:
        window = self._reading.window
        return window.low <= request.start_ns and request.end_ns <= window.high

    def _counts(self, request: Request) -> tuple[_Counts, _Counts]:
        before = self._before.get(id(request), _Counts())
        if request.end_ns <= self._reading.window.high and id(request) in self._after:
            # The whole rest of it lies inside: also what only later passes settle.
            after = _Counts(
                request.prompt_tokens, request.generated_tokens, request.passes,
                request.draft_tokens, request.accepted_tokens,
            )  # fmt: skip
        else:
            after = self._after.get(id(request), before)
        return before, after


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None else after - (before or 0)

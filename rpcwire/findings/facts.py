"""What a check sees: the accounts of a run, the evidence gathered beside them, and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rpcwire.findings.finding import PROMPT_TOKEN, TOKEN, Cost, Figure, Finding, rank
from rpcwire.findings.gather.tallies import PROMPT, TOKENS, Cell, Tallies
from rpcwire.findings.pricing import LOCAL_RTT_MS, PricedLink, recorded_link, severity
from rpcwire.findings.text import is_loopback
from rpcwire.ggml.place import placed
from rpcwire.seen import Seen, endpoint, seen

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis
    from rpcwire.capture.health import CaptureHealth
    from rpcwire.findings.evidence import Evidence
    from rpcwire.session import Session

#: Share of the answers to trivial commands that a busy host does not delay.
_EARLY = 0.1
#: Passes that show what a typical one takes.
_PASSES = 5
#: Delay of a request in ms from which a person notices it.
_NOTICED_MS = 100.0


class Facts:
    """A finished run.

    Args:
        analysis: its accounts.
        session: its streams. health: of its files.
        evidence: what was gathered beside; `finish` has been called.
        link: the link to price on; None takes the recorded one (see `recorded_link`).
    """

    def __init__(
        self,
        analysis: Analysis,
        session: Session,
        health: CaptureHealth,
        evidence: Evidence,
        link: PricedLink | None = None,
    ) -> None:
        self.analysis = analysis
        self.session = session
        self.health = health
        self.evidence = evidence
        self.tallies = Tallies(session.run.totals)
        recorded = recorded_link(self.recorded_rtt_ms, evidence.loading.mbit_s or None)
        self.recorded = recorded
        self.link = link or recorded
        self.tokens = analysis.per_token.tokens

    # -- the run ---------------------------------------------------------------------------------

    @cached_property
    def connections(self) -> list[Seen]:
        """Connections that speak ggml RPC."""
        return [c for c in seen(self.session) if c.rpc.recognised]

    @property
    def dropped(self) -> int:
        """Packets that the capturing machine says it dropped."""
        return sum((i.dropped or 0) + (i.os_dropped or 0) for i in self.health.interfaces)

    @property
    def slimmed(self) -> bool:
        """Whether rpcwire left contents out of the files on purpose."""
        return self.health.slimmed

    @property
    def damage(self) -> list[str]:
        """What is wrong with the files."""
        return list(self.health.notes)

    @cached_property
    def recorded_rtt_ms(self) -> float | None:
        """Round-trip time of the slowest worker's path; None when it cannot be told.

        A busy machine answers late, which is no link: where the fastest answers to trivial
        commands came as on one host, the path is one. And no path takes longer than what was
        waited for over it: round trips of a token follow one another within its time.
        """
        token = self.analysis.per_token
        rtt = token.rtt_ms
        if rtt is None:
            known = (w.rtt_ms for w in self.analysis.workers if w.rtt_ms is not None)
            rtt = max(known, default=None)
        if rtt is None:
            return None
        least = self._least_rtt_ms
        if least is not None and least < LOCAL_RTT_MS:
            return least
        if token.ms and token.round_trips:
            rtt = min(rtt, token.ms / token.round_trips)
        return rtt

    @property
    def _least_rtt_ms(self) -> float | None:
        """By the answers that came earliest; of several workers the slowest path."""
        workers = self.session.run.totals.workers
        found = []
        for worker in self.analysis.workers:
            times = [
                d for a, w in workers.items() if endpoint(a) == worker.server
                for d in w.trivial.values() if d.count
            ]  # fmt: skip
            if worker.rtt_ms is None or worker.rtt_source != "rpc" or not times:
                continue
            typical = min(d.quantile(0.5) for d in times) / 1e6
            early = min(d.quantile(_EARLY) for d in times) / 1e6
            found.append(max(0.0, worker.rtt_ms - typical) + early)
        return max(found, default=None)

    @property
    def nearer_worker(self) -> bool:
        """Whether the link lies between the capture point and the client."""
        ways = [
            (c.rtt_ns(c.rpc.client_side), c.rtt_ns(1 - c.rpc.client_side))
            for c in self.connections
            if c.rpc.client_side >= 0
        ]
        to_worker = min((ns for way, _ in ways for ns in way), default=0)
        to_client = min((ns for _, way in ways for ns in way), default=0)
        return to_client > to_worker

    @cached_property
    def prompt_tokens(self) -> int:
        """Prompt rows computed."""
        return sum(r.prompt_tokens for r in self.analysis.requests)

    @cached_property
    def drafted(self) -> int:
        """Drafted tokens that were verified."""
        return sum(r.draft_tokens or 0 for r in self.analysis.requests)

    @cached_property
    def accepted(self) -> int:
        """Drafted tokens that were kept."""
        return sum(r.accepted_tokens or 0 for r in self.analysis.requests)

    @cached_property
    def rounds(self) -> int:
        """Verify passes."""
        return self.analysis.phases["verify"].passes

    @property
    def speculative(self) -> bool:
        """Whether drafts were verified, so that there is something to say of speculation."""
        return self.rounds > 0

    @cached_property
    def generation(self) -> Cell:
        """All that moved while tokens were generated."""
        return self.tallies.sum(moments=(TOKENS,))

    # -- times -----------------------------------------------------------------------------------

    @cached_property
    def at_once(self) -> float:
        """Requests that generate at the same time, on average, while any does; 1 without any.

        Each of them waits for what a pass of all of them sends: a token's time holds that often
        what bytes and round trips are per token.
        """
        spans = sorted(
            (r.start_s + (r.prefill_s or 0.0), r.start_s + (r.prefill_s or 0.0) + r.decode_s)
            for r in self.analysis.requests
            if r.decode_s
        )
        lived = sum(end - start for start, end in spans)
        united = until = 0.0
        for start, end in spans:
            united += max(0.0, end - max(start, until))
            until = max(until, end)
        return max(1.0, lived / united) if united else 1.0

    @property
    def as_recorded(self) -> bool:
        """Whether the priced link is the recorded one, so that times stand as they were taken."""
        return self.link is self.recorded and self.link.recorded

    @cached_property
    def steady(self) -> float:
        """What the token's time would be had no pass been held up, over what it was.

        Client and workers of one host take the processor from one another, which no run over a
        link does: there the typical pass counts, not the mean one. Stalls that were seen on the
        wire are no such accident.
        """
        ends = [(c.rpc.client[0], c.rpc.server[0]) for c in self.connections]
        one_host = all(here == there or is_loopback(there) for here, there in ends)
        if not one_host or self.recorded.recorded or self.evidence.waits.stalls[TOKENS]:
            return 1.0
        periods = [d for d in self.evidence.places.periods.values() if d.count >= _PASSES]
        whole = sum(d.total for d in periods)
        typical = sum(d.count * d.quantile(0.5) for d in periods)
        return min(1.0, typical / whole) if whole else 1.0

    @property
    def client_ms(self) -> float | None:
        """Milliseconds of a token that the client takes; None when they cannot be told."""
        client = self.analysis.per_token.client_ms
        return None if client is None else client * self.steady

    @property
    def server_ms(self) -> float | None:
        """Milliseconds of a token that the workers take; None when they cannot be told."""
        own = self.analysis.per_token.server_ms
        return None if own is None else own * self.steady

    @cached_property
    def token_ms(self) -> float | None:
        """Milliseconds of a generated token on the priced link; None when none was generated."""
        token = self.analysis.per_token
        if token.ms is None or not self.tokens:
            return None
        if self.as_recorded:
            return token.ms
        own = max(0.0, token.ms - (token.network_ms or 0.0)) * self.steady
        cell = self.generation
        moved = self.link.ms(cell.bytes / self.tokens, cell.trips / self.tokens)
        return own + moved * self.at_once

    @cached_property
    def prompt_ms(self) -> float | None:
        """Milliseconds of a prompt token on the priced link."""
        total = sum(r.prefill_s or 0.0 for r in self.analysis.requests) * 1e3
        if not total or not self.prompt_tokens:
            return None
        if not self.as_recorded:
            cell = self.tallies.sum(moments=(PROMPT,))
            total += self.link.ms(cell.bytes, cell.trips)
        return total / self.prompt_tokens

    @property
    def request_ms(self) -> float | None:
        """Milliseconds of requests per generated token, prompts included, on the priced link."""
        if self.token_ms is None or not self.tokens:
            return None
        return self.token_ms + (self.prompt_ms or 0.0) * self.prompt_tokens / self.tokens

    # -- findings --------------------------------------------------------------------------------

    def per_token(self, amount: float) -> float:
        """An amount of the whole run per generated token; 0 when there was none."""
        return amount / self.tokens if self.tokens else 0.0

    def finding(
        self,
        name: str,
        title: str,
        remedy: str,
        *,
        figures: Mapping[str, Figure],
        frames: Sequence[int] = (),
        total_bytes: float = 0.0,
        trips: float = 0.0,
        delay_ms: float = 0.0,
        per: str = TOKEN,
        whole_request: bool = False,
        between: bool = False,
        at_least: str = "info",
        at_most: str = "problem",
        confidence: str = "high",
    ) -> Finding:
        """Price a cause.

        Args:
            name: id of the finding.
            title: one sentence.
            remedy: what to change.
            figures: what was measured.
            frames: places (see ggml.place) of packets that show it.
            total_bytes: of the whole run, attributed to the cause.
            trips: round trips likewise.
            delay_ms: what it cost besides, in the whole run, to each request that waited.
            per: the token that it is divided by.
            whole_request: the cause lies outside of the tokens' own time (before, or between
                requests), so that its share is one of whole requests, and only a delay that a
                person notices counts.
            between: with `whole_request`: it lies between them, so that their time lacks it.
            at_least: lowest severity.
            at_most: highest severity.
            confidence: see Finding.
        """
        tokens = self.tokens if per == TOKEN else self.prompt_tokens
        n = tokens or 1
        count, waits = total_bytes / n, trips / n
        ms = self.link.ms(count, waits) + delay_ms / n if tokens else 0.0
        felt = ms
        whole = self.token_ms if per == TOKEN else self.prompt_ms
        share = None
        if whole and tokens:
            extra = self.request_ms if whole_request and per == TOKEN else whole
            base = extra or whole
            if not whole_request:
                ms = min(ms, base)
                many = self.at_once if per == TOKEN else 1.0
                felt = min(ms + (many - 1) * self.link.ms(count, waits), base)
            share = felt / max(base + felt if between else base, felt)
        level = severity(share)
        if whole_request and ms * tokens < _NOTICED_MS * max(1, len(self.analysis.requests)):
            level = "info"
        level = max(level, at_least, key=rank)
        level = min(level, at_most, key=rank)
        where = [placed(n) for n in sorted(set(frames))]
        names = self.health.files
        remaining = None
        if whole is not None and tokens:
            remaining = whole if whole_request else max(0.0, whole - felt)
        return Finding(
            id=name,
            severity=level,
            title=title,
            cost=Cost(
                count if tokens else 0.0,
                waits if tokens else 0.0,
                ms,
                remaining,
                per,
                self.link.name,
            ),
            remedy=remedy,
            confidence=confidence,
            figures=figures,
            frames=[number for _, number in where],
            files=[names[file] for file, _ in where] if len(names) > 1 else (),
            share=share,
            of_requests=whole_request and per == TOKEN,
        )


__all__ = ["PROMPT_TOKEN", "TOKEN", "Facts"]

"""A recorded run on other links: its waits replayed, its computing kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rpcwire.errors import UsageError
from rpcwire.links.catalogue import Link
from rpcwire.links.transfer import Leg, link_time
from rpcwire.predict.prediction import LinkResult, limited_by, verdict
from rpcwire.predict.scenario import Assumption
from rpcwire.runs.distribution import Distribution
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis
    from rpcwire.ggml.frame import Frame

#: Mbit/s that stand for a rate that no upload in the capture was large enough to show.
FASTEST = 1e6
_LARGE = 64 << 10  #: bytes of an upload that shows what the link carries


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a run (one token, one prompt token): its traffic, and where its time went.

    Attributes:
        up, down, round_trips: per token. ms: per token, or None.
        rtt, rate: of the recorded link in seconds and bytes a second; None where not known.
    """

    up: float
    down: float
    round_trips: float
    ms: float | None
    rtt: float | None
    rate: float | None

    @property
    def computing_ms(self) -> float | None:
        """What stays the same on any link: workers and client.

        The recorded link is taken off by the same arithmetic that puts another one on, so that
        the recorded link's own figure comes out of a replay.
        """
        if self.ms is None or self.rtt is None:
            return None
        network, _ = self.on(self.rtt, self.rate or FASTEST * 1e6 / 8)
        return max(self.ms - network, 0.0)

    def on(self, rtt: float, rate: float) -> tuple[float, float]:
        """Network milliseconds on a link, and their part that is round trips."""
        whole = link_time([Leg(round(self.up), round(self.down), False)], rtt, rate)
        latency = 1e3 * rtt * self.round_trips
        return 1e3 * whole.transfer + latency, latency


@dataclass(slots=True)
class Recorded:
    """What a capture tells about the run in it.

    Attributes:
        files: names. protocol: of the workers. endpoints: of the workers.
        tokens: generated tokens that the averages stand on.
        token: per generated token, drafts included. prompt: per prompt token.
        load_up, load_trips: bytes to the workers and round trips of the load.
        rtt_ms, mbit_s: of the recorded link, or None: the rate that its large uploads reached.
        roles: role, up and down per token.
    """

    files: list[str]
    protocol: str
    endpoints: list[str]
    tokens: int
    token: Share
    prompt: Share
    load_up: int
    load_trips: int
    rtt_ms: float | None
    mbit_s: float | None
    roles: list[tuple[str, float]] = field(default_factory=list)

    def link(self) -> Link | None:
        """The recorded link itself, on which a replay gives the recorded figure."""
        if self.rtt_ms is None:
            return None
        rate = self.mbit_s if self.mbit_s is not None else FASTEST
        return Link("recorded", "The recorded link", (self.rtt_ms,) * 3, (rate,) * 3, ("capture",))

    def assumptions(self) -> list[Assumption]:
        """What a replay rests on."""
        rtt = "unknown" if self.rtt_ms is None else f"{self.rtt_ms:.3g} ms"
        found = [
            Assumption("recorded run", ", ".join(self.files), "measured"),
            Assumption("protocol", self.protocol, "measured"),
            Assumption("round trip of the recorded link", rtt, "measured"),
        ]
        if self.mbit_s is not None:
            text = f"{self.mbit_s:.4g} Mbit/s, as fast as its large uploads went"
            found.append(Assumption("rate of the recorded link", text, "measured"))
        if self.token.ms is not None:
            text = f"{self.token.ms:.4g} ms over {self.tokens} tokens"
            found.append(Assumption("time per token on the recorded link", text, "measured"))
        computing = self.token.computing_ms
        if computing is not None:
            text = f"{computing:.4g} ms per token, the same on every link"
            found.append(Assumption("workers and client", text, "measured"))
        return found


class UploadRate:
    """What the faster large uploads of a capture reached, frame by frame."""

    def __init__(self) -> None:
        self._rates = Distribution()

    def frame(self, frame: Frame) -> None:
        """See a frame."""
        spent = frame.end_ns - frame.time_ns
        if frame.direction == 0 and frame.bytes >= _LARGE and not frame.missing and spent > 0:
            self._rates.add(frame.bytes * 1_000_000_000 // spent)

    @property
    def rate(self) -> int | None:
        """Bytes a second that a quarter of them exceeded; None without any."""
        return self._rates.quantile(0.75) if self._rates.count else None


def averages(found: Analysis, rate: float | None) -> Recorded:
    """Averages of a recorded run.

    Args:
        found: its accounts.
        rate: bytes a second of its large uploads, see UploadRate.
    """
    token, prompt = found.per_token, found.phases["prefill"]
    rows = sum(request.prompt_tokens for request in found.requests)
    seconds = [request.prefill_s for request in found.requests]
    known = [value for value in seconds if value is not None]
    prompt_ms = 1e3 * sum(known) / rows if rows and len(known) == len(seconds) else None
    rtt = None if token.rtt_ms is None else token.rtt_ms / 1e3
    load = found.phases["load"]
    # the state phase is left out: what is saved with a prompt does not fall into a token's time
    steps = [found.phases[phase] for phase in GENERATION]
    per = max(token.tokens, 1)
    return Recorded(
        files=found.capture.files,
        protocol=", ".join(sorted({one.protocol for one in found.connections})),
        endpoints=list(dict.fromkeys(one.server for one in found.connections)),
        tokens=token.tokens,
        token=Share(
            sum(one.bytes_up for one in steps) / per,
            sum(one.bytes_down for one in steps) / per,
            sum(one.round_trips for one in steps) / per,
            token.ms,
            rtt,
            rate,
        ),
        prompt=Share(
            prompt.bytes_up / rows if rows else 0.0,
            prompt.bytes_down / rows if rows else 0.0,
            prompt.round_trips / rows if rows else 0.0,
            prompt_ms,
            rtt,
            rate,
        ),
        load_up=load.bytes_up,
        load_trips=load.round_trips,
        rtt_ms=token.rtt_ms,
        mbit_s=None if rate is None else rate * 8 / 1e6,
        roles=[(one.role, one.bytes_per_token) for one in found.roles if one.bytes_per_token],
    )


def replay(recorded: Recorded, links: Sequence[Link]) -> list[LinkResult]:
    """What each link would have made of the recorded run.

    Raises:
        UsageError: no token was generated in it.
    """
    if recorded.tokens < 1:
        raise UsageError("--from: no token is generated in that capture")
    return [_on_link(recorded, link) for link in links]


def _on_link(recorded: Recorded, link: Link) -> LinkResult:
    cases = [recorded.token.on(*link.case(case)) for case in range(3)]
    computing = recorded.token.computing_ms
    speeds = total = share = None
    if computing is not None:
        each = [computing + net for net, _ in cases]
        speeds = (1e3 / each[0], 1e3 / each[1], 1e3 / each[2])
        total = each[1]
        share = cases[1][0] / total
    net, latency = cases[1]
    rtt, rate = link.case(1)
    prompt_ms, _ = recorded.prompt.on(rtt, rate)
    prompt_computing = recorded.prompt.computing_ms
    load = recorded.load_up / rate + recorded.load_trips * rtt
    return LinkResult(
        link=link,
        network_ms=net,
        latency_ms=latency,
        total_ms=total,
        tokens_per_s=speeds,
        ceiling=1e3 / net if net else float("inf"),
        share=share,
        prefill_ms=prompt_ms,
        prefill_tokens_per_s=None
        if prompt_computing is None or prompt_computing + prompt_ms <= 0
        else 1e3 / (prompt_computing + prompt_ms),
        cold_s=load,
        cached_s=None,
        load_limited_by="link",
        verdict=verdict(share),
        limited_by=limited_by(net, latency, total, "computing"),
        break_even=None,
    )

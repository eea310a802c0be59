"""A recorded run on other links: its waits replayed, its computing kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcwire.errors import UsageError
from rpcwire.links.catalogue import Link
from rpcwire.links.transfer import Leg, link_time
from rpcwire.predict.prediction import LinkResult, limited_by, verdict
from rpcwire.predict.scenario import Assumption

#: Mbit/s that stand for a rate that no upload in the capture was large enough to show.
FASTEST = 1e6


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

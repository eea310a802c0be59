"""What bytes and round trips cost on a link: the one place where findings do arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

#: The link that stands for one where the capture shows none (a worker on the same machine).
ASSUMED_RTT_MS, ASSUMED_MBIT_S = 0.3, 941.0
#: Below this round-trip time a recorded path is no network.
LOCAL_RTT_MS = 0.1
#: Shares of the token's time from which a cost is a warning or a problem.
WARNING_SHARE, PROBLEM_SHARE = 0.05, 0.25


@dataclass(frozen=True, slots=True)
class PricedLink:
    """The link that costs stand on.

    Attributes:
        name: for reading. rtt_ms, mbit_s: of one connection, each way.
        recorded: its round-trip time is the capture's, so that the token's time is, too.
        rate_source: "measured", "stated" or "assumed". rtt_source likewise.
    """

    name: str
    rtt_ms: float
    mbit_s: float
    recorded: bool
    rtt_source: str
    rate_source: str

    def ms(self, count: float, trips: float = 0.0) -> float:
        """Milliseconds that bytes and round trips take."""
        return trips * self.rtt_ms + count * 8 / (self.mbit_s * 1e3)

    @property
    def is_network(self) -> bool:
        """Whether there is a link at all: one that was recorded, or one that was stated."""
        return self.recorded or self.rtt_source == "stated"


def recorded_link(rtt_ms: float | None, mbit_s: float | None) -> PricedLink:
    """The link of a capture, as far as it shows one; else 1 Gbit Ethernet with 0.3 ms.

    Args:
        rtt_ms: round-trip time of the path; None or below LOCAL_RTT_MS: no network.
        mbit_s: payload rate that its longest transfer reached; None when there was none.
    """
    if rtt_ms is None or rtt_ms < LOCAL_RTT_MS:
        name = f"1 Gbit Ethernet, {ASSUMED_RTT_MS:g} ms (assumed)"
        return PricedLink(name, ASSUMED_RTT_MS, ASSUMED_MBIT_S, False, "assumed", "assumed")
    rate, source = (mbit_s, "measured") if mbit_s else (ASSUMED_MBIT_S, "assumed")
    name = f"recorded link, {rtt_ms:.3g} ms, {rate:.3g} Mbit/s"
    if source == "assumed":
        name += " (rate assumed)"
    return PricedLink(name, rtt_ms, rate, True, "measured", source)


def stated_link(name: str, rtt_ms: float, mbit_s: float) -> PricedLink:
    """A link that the user names."""
    title = f"{name}, {rtt_ms:.3g} ms, {mbit_s:.4g} Mbit/s (stated)"
    return PricedLink(title, rtt_ms, mbit_s, False, "stated", "stated")


def severity(share: float | None) -> str:
    """How serious a part of the token's time is; unknown shares are remarks."""
    if share is None:
        return "info"
    if share >= PROBLEM_SHARE:
        return "problem"
    return "warning" if share >= WARNING_SHARE else "info"

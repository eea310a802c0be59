"""The time of a token, split into client, network and worker, as one capture point can know it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rpcwire.runs.sequences import Request
    from rpcwire.runs.totals import Totals, WorkerTimes

Endpoint = tuple[str, int]
_MB = 1 << 20


class RttSummary(Protocol):
    """Samples of one direction, as the TCP layer keeps them."""

    minimum: int | None


class TcpSide(Protocol):
    """One direction of a TCP connection."""

    rtt: RttSummary


class TcpTimes(Protocol):
    """What is needed to know of a TCP connection."""

    handshake_ns: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class PathRtt:
    """Round-trip time between the client and one worker, as seen from the capture point.

    Attributes:
        worker_ns: from the capture point to the worker and back; None when it cannot be told.
        client_ns: from the capture point to the client and back.
        source: "rpc" (trivial commands: the whole path, tunnels included), "tcp" (handshakes and
            acknowledgements: only to the nearest hop), or "".
        tcp_ns: what TCP alone says of the way to the worker, None when unknown.
    """

    worker_ns: int | None
    client_ns: int
    source: str
    tcp_ns: int | None = None

    @property
    def total_ns(self) -> int | None:
        """Client to worker and back."""
        return None if self.worker_ns is None else self.worker_ns + self.client_ns


@dataclass(frozen=True, slots=True)
class TokenTime:
    """Milliseconds per generated token; None where they cannot be told.

    Attributes:
        ms: from the prompt's result to the last token, ÷ generated tokens − 1.
        network_ms: round trips × RTT plus the time in which bytes were under way.
        server_ms: workers computing, united over workers, less the round-trip time.
        client_ms: the rest.
    """

    ms: float | None
    client_ms: float | None
    network_ms: float | None
    server_ms: float | None


def path_rtt(
    worker: WorkerTimes | None, to_worker: Iterable[int], to_client: Iterable[int]
) -> PathRtt:
    """Estimate a path's round-trip time.

    Args:
        worker: times of the worker, for the answers to trivial commands.
        to_worker: what TCP measured from the capture point to the worker, in ns.
        to_client: the same to the client.

    Returns:
        The estimate. Of the trivial commands the one answered fastest counts, since some ask a
        device driver, by its lower quartile, since a busy host only ever adds.
    """
    tcp = min(to_worker, default=None)
    client = min(to_client, default=0)
    answers = [d.quantile(0.25) for d in worker.trivial.values() if d.count] if worker else []
    if answers:
        return PathRtt(min(answers), client, "rpc", tcp)
    return PathRtt(tcp, client, "tcp" if tcp is not None else "", tcp)


def generated(requests: Iterable[Request]) -> int:
    """ΣG: generated tokens counted in rates, one less than returned for each request."""
    return sum(max(0, r.generated_tokens - 1) for r in requests)


def token_time(
    totals: Totals, requests: Sequence[Request], rtts: dict[Endpoint, PathRtt]
) -> TokenTime:
    """Split the time of a token.

    Args:
        totals: of the whole run.
        requests: all of it.
        rtts: by worker.
    """
    tokens = generated(requests)
    spans = sorted(
        (r.prompt_end_ns, r.end_ns) for r in requests if r.prompt_end_ns and r.generated_tokens > 1
    )
    if not tokens or not spans:
        return TokenTime(None, None, None, None)
    lived = sum(max(0, end - start) for start, end in spans)
    ms = lived / tokens / 1e6
    known = [rtts[w].total_ns is not None for w in totals.workers if totals.workers[w].waits]
    if not known or not all(known):
        return TokenTime(ms, None, None, None)
    network = server = 0.0
    for address, worker in totals.workers.items():
        if not worker.waits:
            continue
        rtt = rtts[address]
        assert rtt.worker_ns is not None
        sent = max(worker.up_ns, worker.up * _slowness(worker, 0))
        received = max(worker.down_ns, worker.down * _slowness(worker, 1))
        hidden = sent - worker.up_ns  # still under way when the last byte had left the host
        network += worker.trips * (rtt.worker_ns + rtt.client_ns) + sent + received
        server += worker.waited_ns - worker.waits * rtt.worker_ns - hidden
    # Slots that generate side by side all wait for the same pass.
    shared = lived / _united(spans) / tokens / 1e6
    network_ms = min(network * shared, ms)
    server_ms = min(max(0.0, server * shared), ms - network_ms)
    return TokenTime(ms, ms - network_ms - server_ms, network_ms, server_ms)


def _slowness(worker: WorkerTimes, direction: int) -> float:
    """Nanoseconds per byte that large frames took; 0 when there were none."""
    return worker.rates[direction].quantile(0.5) / _MB


def _united(spans: list[tuple[int, int]]) -> int:
    """Length of the union of sorted spans."""
    total = until = 0
    for start, end in spans:
        total += max(0, end - max(start, until))
        until = max(until, end)
    return max(1, total)

"""Times: distributions, round trips, and the token's time against the server's own."""

from __future__ import annotations

import numpy as np
import pytest

from rpcwire.ggml.frame import UP
from rpcwire.runs.distribution import Distribution
from rpcwire.runs.timing import path_rtt
from rpcwire.runs.totals import WorkerTimes
from tests.bundled import analysis, told
from tests.runs.recorded import recorded


def test_a_distribution_is_exact_while_it_is_small() -> None:
    values = np.random.default_rng(3).integers(1, 1000, 999)
    d = Distribution()
    for v in values.tolist():
        d.add(v)
    assert (d.low, d.high, d.total) == (values.min(), values.max(), values.sum())
    assert d.quantile(0.5) == np.sort(values)[499]


def test_a_distribution_stays_small() -> None:
    d = Distribution()
    for v in range(100_000):
        d.add(v)
    assert len(d.values) <= 4096
    assert d.count == 100_000
    assert d.quantile(0.95) == pytest.approx(95_000, rel=0.01)


def test_the_fastest_trivial_command_tells_the_round_trip() -> None:
    worker = WorkerTimes()
    for command, usual in (("HELLO", 900), ("GET_DEVICE_MEMORY", 5000), ("GET_ALIGNMENT", 300)):
        d = worker.trivial[command] = Distribution()
        for v in (usual - 50, usual, usual + 10, usual + 4000, usual + 9000):
            d.add(v)
    rtt = path_rtt(worker, to_worker=[40, 30], to_client=[7])
    assert (rtt.worker_ns, rtt.client_ns, rtt.source, rtt.tcp_ns) == (300, 7, "rpc", 30)
    assert path_rtt(None, [40, 30], []).source == "tcp"
    assert path_rtt(None, [], []).total_ns is None


def test_a_round_trip_is_an_answer_before_the_next_request() -> None:
    """Counted again from the frames alone."""
    session, frames, _ = recorded("v7.0-mtp-partial")
    requests: dict[int, list] = {}
    for f in frames:
        if f.direction == UP:
            requests.setdefault(f.connection.id, []).append(f)
    trips = 0
    for sent in requests.values():
        for f, following in zip(sent, [*sent[1:], None], strict=True):
            if f.response is not None and (
                following is None or f.response.time_ns < following.time_ns
            ):
                trips += 1
    assert trips == sum(t.round_trips for t in session.run.totals.by_phase().values())


SERVED = [
    "v4.0.1-llama-server", "v7.0-llama-server", "v7.0-defaults", "v7.0-kv-q8", "v7.0-link-1gbe",
    "v7.0-mtp-partial", "v7.0-output-local", "v7.0-qwen35-mtp", "v7.0-qwen35-plain",
    "v7.0-qwen3moe", "v7.0-ssh-tunnel", "v7.0-two-servers",
]  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_milliseconds_per_token_agree_with_the_server(name: str) -> None:
    served = told(name)["requests"]
    spent = sum(r["predicted_ms"] for r in served)
    tokens = sum(r["predicted_n"] - 1 for r in served)
    time = analysis(name).per_token
    assert time.ms == pytest.approx(spent / tokens, rel=0.02)
    assert time.ms == pytest.approx(time.client_ms + time.network_ms + time.server_ms)
    assert min(time.client_ms, time.network_ms, time.server_ms) >= 0


def test_a_tunnel_shows_in_the_answers_not_in_the_acknowledgements() -> None:
    worker = analysis("v7.0-ssh-tunnel").workers[0]
    assert worker.rtt_source == "rpc"
    assert worker.rtt_ms > 0.29  # what the emulated link alone takes
    assert worker.tcp_rtt_ms < 0.05


def test_the_network_of_an_emulated_link_is_its_round_trip() -> None:
    """One round trip a token over 0.29 ms and 1 Gbit/s."""
    time = analysis("v7.0-link-1gbe").per_token
    assert 0.29 < time.network_ms < 0.45

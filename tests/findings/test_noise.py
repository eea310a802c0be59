"""A busy machine is no fault of the run: neither a link, nor a client that is to blame."""

from __future__ import annotations

import dataclasses

import pytest

from rpcwire.findings import Facts, find
from rpcwire.runs.distribution import Distribution
from tests.findings.lab import EXPECTED, diagnosed


def _delayed(name: str, monkeypatch: pytest.MonkeyPatch, early_ms: float, late_ms: float) -> Facts:
    """A run whose trivial commands were answered late, a fifth of them early."""
    facts = diagnosed(name).facts
    for worker in facts.session.run.totals.workers.values():
        times = Distribution()
        for i in range(20):
            times.add(int((early_ms if i % 5 == 0 else late_ms) * 1e6))
        monkeypatch.setattr(worker, "trivial", {"HELLO": times})
    found = facts.analysis
    workers = [dataclasses.replace(w, rtt_ms=late_ms, rtt_source="rpc") for w in found.workers]
    token = dataclasses.replace(found.per_token, rtt_ms=late_ms)
    analysis = dataclasses.replace(found, workers=workers, per_token=token)
    return Facts(analysis, facts.session, facts.health, facts.evidence)


def test_late_answers_on_one_host_are_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = _delayed("v7.0-two-servers", monkeypatch, 0.01, 6.0)
    assert not facts.recorded.recorded
    assert "latency-bound" not in {f.id for f in find(facts)}


def test_round_trips_take_no_longer_than_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = _delayed("v7.0-two-servers", monkeypatch, 6.0, 6.0)
    assert facts.token_ms is not None
    assert facts.link.rtt_ms * facts.analysis.per_token.round_trips <= facts.token_ms + 1e-9
    for f in find(facts):
        assert f.share is None or f.share <= 1
        if f.cost.per == "generated token" and not f.of_requests:
            assert f.cost.ms_per_token <= facts.token_ms + 1e-9


@pytest.mark.parametrize("name", EXPECTED)
def test_no_share_is_more_than_all(name: str) -> None:
    diagnosis = diagnosed(name)
    for f in diagnosis.findings:
        assert f.share is None or 0 <= f.share <= 1
        if diagnosis.token_ms and f.cost.per == "generated token" and not f.of_requests:
            assert f.cost.ms_per_token <= diagnosis.token_ms + 1e-9


def _slow_client(name: str, ms: float) -> Facts:
    """A run whose client took so many ms a token more."""
    facts = diagnosed(name).facts
    token = facts.analysis.per_token
    assert token.ms is not None
    assert token.client_ms is not None
    slower = dataclasses.replace(token, ms=token.ms + ms, client_ms=token.client_ms + ms)
    analysis = dataclasses.replace(facts.analysis, per_token=slower)
    return Facts(analysis, facts.session, facts.health, facts.evidence)


@pytest.mark.parametrize(
    ("name", "severity"),
    [("v7.0-llama-server", "info"), ("v7.0-link-1gbe", "problem"), ("high-latency-worker", "info")],
)
def test_a_slow_client_counts_where_it_can_be_told(name: str, severity: str) -> None:
    found = {f.id: f.severity for f in find(_slow_client(name, 20.0))}
    assert found["client-bound"] == severity


def test_one_pass_that_was_held_up_does_not_make_a_slow_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = diagnosed("v7.0-qwen3moe").facts
    token = calm.analysis.per_token
    assert token.ms is not None
    assert token.client_ms is not None
    lost = 500.0 / token.tokens
    slower = dataclasses.replace(token, ms=token.ms + lost, client_ms=token.client_ms + lost)
    held = Distribution()
    for value in (*calm.evidence.places.periods["decode"].values, 500_000_000):
        held.add(value)
    monkeypatch.setitem(calm.evidence.places.periods, "decode", held)
    analysis = dataclasses.replace(calm.analysis, per_token=slower)
    busy = Facts(analysis, calm.session, calm.health, calm.evidence)
    assert calm.token_ms is not None
    assert busy.token_ms is not None
    assert busy.token_ms < 1.5 * calm.token_ms
    assert {f.id for f in find(busy) if f.severity != "info"} == set()


def test_each_of_several_requests_waits_for_all_of_a_pass() -> None:
    """A token's time is its request's, and holds the round trips of passes that serve others."""
    facts = diagnosed("parallel-mtp").facts
    assert facts.at_once > 1.5
    assert diagnosed("v7.0-qwen35-mtp").facts.at_once == pytest.approx(1)
    trips = facts.generation.trips / facts.tokens * facts.link.rtt_ms
    finding = next(f for f in find(facts) if f.id == "draft-round-trips")
    assert facts.token_ms is not None
    alone = finding.cost.round_trips_per_token * facts.link.rtt_ms / facts.token_ms
    assert finding.share == pytest.approx(alone * facts.at_once)
    assert trips * facts.at_once < facts.token_ms

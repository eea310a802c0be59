"""Costs are bytes and round trips times the link, and nothing else."""

from __future__ import annotations

import pytest

from rpcwire.diagnosis import diagnose
from rpcwire.findings import stated_link
from rpcwire.findings.pricing import recorded_link, severity
from tests.findings.lab import EXPECTED, diagnosed, path

#: Findings whose cost holds a delay that was measured, or whose share is capped.
DELAYS = {
    "low-acceptance", "worker-uneven", "jitter", "delayed-ack-stall", "retransmissions",
    "negotiated-100mbit", "client-bound", "parallel-serialised",
}  # fmt: skip


def test_a_local_path_is_priced_as_gigabit_ethernet() -> None:
    for rtt in (None, 0.0, 0.0999):
        link = recorded_link(rtt, 3000.0)
        assert (link.rtt_ms, link.mbit_s, link.recorded) == (0.3, 941.0, False)
    assert recorded_link(0.1, 500.0).recorded


def test_milliseconds_of_bytes_and_round_trips() -> None:
    link = stated_link("a link", 2.0, 100.0)
    assert link.ms(12_500) == pytest.approx(1.0)  # 100,000 bits at 100 Mbit/s
    assert link.ms(12_500, 3) == pytest.approx(7.0)


def test_severity_follows_the_share_of_a_token() -> None:
    shares = (0.0, 0.049, 0.05, 0.249, 0.25, 1.0, None)
    expected = ["info", "info", "warning", "warning", "problem", "problem", "info"]
    assert [severity(share) for share in shares] == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_cost_is_what_its_bytes_and_round_trips_take(name: str) -> None:
    diagnosis = diagnosed(name)
    for f in diagnosis.findings:
        cost = f.cost
        if f.id not in DELAYS:
            expected = diagnosis.link.ms(cost.bytes_per_token, cost.round_trips_per_token)
            assert cost.ms_per_token == pytest.approx(expected)
        if cost.per == "generated token" and diagnosis.token_ms is not None:
            assert cost.ms_per_token_without is not None
            assert 0 <= cost.ms_per_token_without <= diagnosis.token_ms + 1e-9


def test_bytes_of_a_cause_are_those_of_its_frames() -> None:
    diagnosis = diagnosed("v7.0-kv-q8")
    found = {f.id: f for f in diagnosis.findings}
    roles = {r.role: r for r in diagnosis.analysis.roles}
    for name, role in (("kv-rotation", "kv_rotation"), ("unused-inputs", "unused_input")):
        assert found[name].cost.bytes_per_token == pytest.approx(roles[role].bytes_per_token)


def test_a_recorded_link_is_priced_as_measured() -> None:
    diagnosis = diagnosed("v7.0-link-1gbe")
    assert diagnosis.link.recorded
    assert 0.29 < diagnosis.link.rtt_ms < 0.4  # 2 x 0.145 ms one way, and both stacks
    assert diagnosis.token_ms == diagnosis.analysis.per_token.ms


def test_a_stated_link_moves_the_costs_and_not_the_bytes() -> None:
    slow = diagnose(path("v7.0-llama-server"), link=stated_link("slow", 4.0, 10.0))
    usual = diagnosed("v7.0-llama-server")
    ids = {f.id for f in slow.findings if f.severity != "info"}
    assert {"latency-bound", "link-saturated", "small-writes"} & ids == ids & {
        "latency-bound", "link-saturated", "small-writes",
    }  # fmt: skip
    assert {"link-saturated", "small-writes"} <= ids
    assert slow.token_ms is not None
    assert usual.token_ms is not None
    token = usual.analysis.per_token
    cell = usual.facts.generation
    own = usual.token_ms - usual.link.ms(cell.bytes / token.tokens, cell.trips / token.tokens)
    moved = slow.link.ms(cell.bytes / token.tokens, cell.trips / token.tokens)
    assert slow.token_ms == pytest.approx(own + moved)


def test_latency_bound_needs_a_link() -> None:
    assert "latency-bound" not in {f.id for f in diagnosed("v7.0-qwen35-mtp").findings}
    far = diagnose(path("v7.0-qwen35-mtp"), link=stated_link("far", 5.0, 200.0))
    found = {f.id: f for f in far.findings}
    assert found["latency-bound"].severity == "problem"

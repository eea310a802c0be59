"""Two runs side by side, and one run at both ends."""

from __future__ import annotations

import numpy as np
import pytest

from rpcwire.accounts import accounted
from rpcwire.compare import compare
from rpcwire.compare.ends import both_ends
from rpcwire.compare.trace import OFFSET, SENT, TracedEvidence
from rpcwire.findings import Facts
from tests.findings.lab import path


@pytest.fixture(scope="module")
def plain_and_mtp():
    return compare(path("v7.0-qwen35-plain"), path("v7.0-qwen35-mtp"))


def test_what_explains_the_difference_adds_up(plain_and_mtp) -> None:
    more = plain_and_mtp.ms_more
    assert more is not None
    assert more > 0
    assert sum(c.ms for c in plain_and_mtp.changes) == pytest.approx(more, rel=1e-6)
    assert sum(c.explains for c in plain_and_mtp.changes) == pytest.approx(1)
    sizes = [abs(c.ms) for c in plain_and_mtp.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_bytes_of_the_changes_are_those_of_a_token(plain_and_mtp) -> None:
    for name in ("a", "b"):
        side = getattr(plain_and_mtp, name)
        total = sum(getattr(c, f"bytes_{name}") for c in plain_and_mtp.changes)
        assert total == pytest.approx(side.bytes_up + side.bytes_down)
        trips = sum(getattr(c, f"trips_{name}") for c in plain_and_mtp.changes)
        assert trips == pytest.approx(side.round_trips)


def test_what_drafting_adds(plain_and_mtp) -> None:
    grown = {(c.phase, c.role) for c in plain_and_mtp.changes if c.ms > 0.01}
    assert {("verify", "graph"), ("draft", "sampling"), ("draft", "draft_hidden")} <= grown
    only = {f.id for f in plain_and_mtp.only_b}
    assert {"graph-resent", "draft-round-trips", "verify-logits"} <= only
    assert not plain_and_mtp.only_a
    assert plain_and_mtp.ends is None
    per_round = plain_and_mtp.to_dict()["b"]["per_round"]
    assert per_round["rounds"] == 18
    assert per_round["round_trips"] == pytest.approx(2 + 3 * 3, rel=0.1)


def test_a_comparison_turned_round(plain_and_mtp) -> None:
    turned = compare(path("v7.0-qwen35-mtp"), path("v7.0-qwen35-plain"))
    assert turned.ms_more == pytest.approx(-plain_and_mtp.ms_more)
    assert {f.id for f in turned.only_a} == {f.id for f in plain_and_mtp.only_b}


def test_runs_of_other_models_and_lengths_are_not_one_run() -> None:
    found = compare(path("v4.0.1-llama-server"), path("v7.0-output-local"))
    assert found.ends is None
    assert found.ms_more is not None


def test_the_same_capture_twice_is_no_pair_of_ends() -> None:
    found = compare(path("v7.0-qwen3moe"), path("v7.0-qwen3moe"))
    assert found.ends is None
    assert found.ms_more == 0
    assert all(c.explains is None for c in found.changes)


@pytest.mark.parametrize("turned", [False, True])
def test_both_ends_of_an_emulated_link(turned: bool) -> None:
    names = ["high-latency", "high-latency-worker"]
    if turned:
        names.reverse()
    ends = compare(*(path(name) for name in names)).ends
    assert ends is not None
    assert ends.client_side == ("b" if turned else "a")
    # The link delays 2.5 ms each way; a TUN device and two stacks add a little.
    assert 5.0 < ends.rtt_min_ms <= ends.rtt_median_ms < 6.0
    parts = (ends.client_ms, ends.wire_ms, ends.worker_ms)
    assert all(part is not None and part > 0 for part in parts)
    assert sum(part or 0 for part in parts) == pytest.approx(ends.ms)
    assert (ends.wire_ms or 0) > 5.0  # one round trip a token


def test_both_ends_of_a_tunnel_have_other_addresses_and_the_same_frames() -> None:
    ends = compare(path("ssh-client-side"), path("ssh-worker-side")).ends
    assert ends is not None
    assert ends.client_side == "a"
    assert ends.connections == 13
    assert ends.wire_ms is not None
    assert ends.wire_ms > 0.1


def _traced(name: str) -> Facts:
    _, facts = accounted(
        path(name), ports=None, gguf=None, since=None, until=None, request=None, progress=None,
        evidence=TracedEvidence(),
    )  # fmt: skip
    return facts


def test_clocks_do_not_matter() -> None:
    client, worker = _traced("mtp-both-ends-client"), _traced("mtp-both-ends-worker")
    right = both_ends(client, worker)
    assert right is not None
    hour = 3_600_000_000_000
    for trace in worker.evidence.traces.values():  # type: ignore[attr-defined]
        rows = np.array(trace.table())
        rows[:, OFFSET + 1 : OFFSET + 5] += hour
        trace.rows[:] = type(trace.rows)("q", rows.ravel().tolist())
    wrong = both_ends(client, worker)
    assert wrong is not None
    assert (wrong.client_ms, wrong.wire_ms, wrong.worker_ms) == (
        right.client_ms, right.wire_ms, right.worker_ms,
    )  # fmt: skip
    moved = wrong.clock_offset_ms - right.clock_offset_ms
    assert moved == pytest.approx(hour / 1e6)
    assert client.evidence.traces[0].table()[0, SENT] > 0  # type: ignore[attr-defined]

"""Each check fires on its own fault and on no other's; runs without one yield no warning."""

from __future__ import annotations

import pytest

from rpcwire.findings import SEVERITIES, all_checks
from tests.findings.lab import CAPTURES, EXPECTED, diagnosed

#: Tested on bytes that the test makes (test_made.py), or on a stated link (test_pricing.py).
ELSEWHERE = {"rdma-takeover", "dialect-disagrees-with-hello", "small-writes", "mid-stream-start"}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found_in_a_run(name: str) -> None:
    serious, remarks = EXPECTED[name]
    findings = diagnosed(name).findings
    assert {f.id for f in findings if f.severity != "info"} == set(serious)
    assert {f.id for f in findings if f.severity == "info"} == set(remarks)


def test_every_check_fires_somewhere() -> None:
    named = {i for serious, remarks in EXPECTED.values() for i in (*serious, *remarks)}
    assert named | ELSEWHERE == {check.id for check in all_checks()}


def test_every_id_of_the_issue_is_there_with_its_page() -> None:
    ids = {
        "graph-resent", "draft-round-trips", "verify-logits", "draft-prefill-hidden",
        "recurrent-state-transfer", "prompt-checkpoint", "low-acceptance", "remote-output-layer",
        "extra-crossings", "graph-ancestry", "relayed-between-workers", "worker-uneven",
        "worker-idle", "kv-rotation", "unused-inputs", "mask-growth", "alloc-query-storm",
        "prompt-cache-save", "latency-bound", "link-saturated", "negotiated-100mbit", "jitter",
        "delayed-ack-stall", "retransmissions", "small-writes", "tunnel", "load-client-bound",
        "worker-cache-missed", "activations-hashed", "parallel-serialised", "client-bound",
        "second-client-waiting", "routable-listener", "version-mismatch",
        "dialect-disagrees-with-hello", "rdma-takeover", "capture-loss", "capture-cut",
        "one-sided-capture", "mid-stream-start",
    }  # fmt: skip
    assert {check.id for check in all_checks()} == ids
    pages = {page.stem for page in (CAPTURES.parent / "docs" / "findings").glob("*.md")}
    assert pages - {"README"} == ids


@pytest.mark.parametrize("name", EXPECTED)
def test_findings_are_ordered_proved_and_complete(name: str) -> None:
    diagnosis = diagnosed(name)
    costs = [f.cost.ms_per_token for f in diagnosis.findings]
    assert costs == sorted(costs, reverse=True)
    packets = diagnosis.analysis.capture.packets
    for f in diagnosis.findings:
        assert f.severity in SEVERITIES
        assert f.frames, f.id
        assert all(0 < number <= packets for number in f.frames)
        assert f.figures
        assert f.title
        assert f.remedy.endswith((".", ")"))


def test_checks_say_what_they_look_for() -> None:
    for check in all_checks():
        assert len(check.about.splitlines()) >= 3 or check.id == "link-saturated"

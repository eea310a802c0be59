"""Each check fires on its own fault and on no other's; runs without one yield no warning."""

from __future__ import annotations

import pytest

from rpcwire.findings import SEVERITIES, all_checks
from rpcwire.ggml.frame import UP, Frame
from rpcwire.reading import Reading
from tests.findings.lab import CAPTURES, EXPECTED, diagnosed, path

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
    checks = {check.id for check in all_checks()}
    assert ids <= checks
    pages = {page.stem for page in (CAPTURES.parent / "docs" / "findings").glob("*.md")}
    assert pages - {"README"} == checks


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


#: Findings whose evidence is frames of one kind: id -> roles, commands (any of them).
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "graph-resent": (set(), {"GRAPH_COMPUTE"}),
    "graph-ancestry": (set(), {"GRAPH_COMPUTE"}),
    "draft-round-trips": (set(), {"GET_TENSOR"}),
    "verify-logits": ({"logits"}, set()),
    "remote-output-layer": ({"logits"}, set()),
    "draft-prefill-hidden": ({"draft_hidden"}, set()),
    "recurrent-state-transfer": ({"recurrent_state"}, set()),
    "prompt-checkpoint": ({"recurrent_state", "kv_state"}, set()),
    "prompt-cache-save": ({"kv_state"}, set()),
    "extra-crossings": ({"hidden_out", "expert_ids"}, set()),
    "relayed-between-workers": ({"hidden_out", "hidden_in"}, set()),
    "kv-rotation": ({"kv_rotation"}, set()),
    "unused-inputs": ({"unused_input"}, set()),
    "mask-growth": ({"kv_mask"}, set()),
    "alloc-query-storm": ({"alloc_query"}, set()),
    "worker-cache-missed": (set(), {"SET_TENSOR_HASH"}),
    "activations-hashed": (set(), {"SET_TENSOR_HASH"}),
    "second-client-waiting": (set(), {"HELLO"}),
    "version-mismatch": (set(), {"HELLO"}),
}


def _frames(name: str) -> dict[int, set[str]]:
    """By packet number, roles and commands of the requests that begin in it."""
    found: dict[int, set[str]] = {}

    def see(frame: Frame) -> None:
        if frame.direction == UP:
            found.setdefault(frame.number, set()).update((frame.role, frame.command))

    Reading(path(name), on_frame=see).run()
    return found


@pytest.mark.parametrize(
    "name",
    [
        "alloc-storm", "mtp-accepted", "ngram-hybrid", "experts-on-client", "unanchored-ot",
        "v7.0-two-servers", "v7.0-kv-q8", "long-context", "cache-cold", "activations-hashed",
        "second-client", "version-mismatch", "v7.0-llama-server",
    ],
)  # fmt: skip
def test_evidence_names_frames_of_the_cause(name: str) -> None:
    frames = _frames(name)
    for f in diagnosed(name).findings:
        if f.id in KINDS:
            roles, commands = KINDS[f.id]
            for number in f.frames:
                assert frames[number] & (roles | commands), (f.id, number, frames[number])


def test_checks_say_what_they_look_for() -> None:
    for check in all_checks():
        assert len(check.about.splitlines()) >= 3 or check.id == "link-saturated"

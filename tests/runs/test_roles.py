"""Roles come from the graph: what each build's decode step holds, and that names do not matter."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from rpcwire.ggml.frame import UP, Frame
from rpcwire.ggml.tensor import TensorRecord
from tests.bundled import NAMES
from tests.runs.recorded import read, recorded

LLAMA = ["embedding_in", "positions", "kv_indices", "kv_indices", "kv_mask", "output_ids"]
UNUSED = ["unused_input"] * 3
#: Roles of the requests of one pass of a build, in order; from the sources of llama.cpp.
STEPS = {
    "v2.0.0-llama-bench": [*LLAMA, "graph", "logits"],
    "v3.6.1-llama-bench": [*LLAMA, "graph_reuse", "logits"],
    "v4.0.1-llama-server": [*LLAMA, "graph_reuse", "logits"],
    "v7.0-llama-server": [*UNUSED, *LLAMA, "graph_reuse", "logits"],
    "v7.0-qwen3moe": [*UNUSED, *LLAMA, "graph_reuse", "logits"],
    "v7.0-output-local": [*UNUSED, *LLAMA, "graph_reuse", "hidden_out"],
    "v7.0-qwen35-plain": [
        *UNUSED, "embedding_in", "recurrent_ids", "positions", "kv_indices", "kv_indices",
        "kv_mask", "output_ids", "graph_reuse", "logits",
    ],
    "v7.0-kv-q8": [
        *UNUSED, "embedding_in", "recurrent_ids", "positions", "kv_indices", "kv_indices",
        "kv_mask", "kv_rotation", "kv_rotation", "output_ids", "graph_reuse", "logits",
    ],
    "v7.0-two-servers": [
        *UNUSED, *LLAMA[:-1], "graph_reuse", "hidden_out",
        "hidden_in", *LLAMA[1:], "graph_reuse", "logits",
    ],
}  # fmt: skip


def of_pass(frames: list[Frame], pass_id: int) -> list[Frame]:
    return [f for f in frames if f.pass_id == pass_id and f.direction == UP]


@pytest.mark.parametrize("name", STEPS)
def test_every_request_of_a_decode_pass_has_its_role(name: str) -> None:
    _, frames, passes = recorded(name)
    decodes = [p for p in passes if p.group.phase == "decode"]
    roles = [f.role for f in of_pass(frames, decodes[-2].id) if f.role != "alloc_query"]
    assert sorted(roles) == sorted(STEPS[name])


def test_a_round_of_drafts_moves_hidden_states_and_candidates() -> None:
    _, frames, passes = recorded("v7.0-qwen35-mtp")
    verify = next(p for p in passes if p.group.phase == "verify" and p.rows == 4)
    later = [p for p in passes if p.id > verify.id][:4]
    assert [p.group.phase for p in later] == ["draft"] * 4
    assert [p.rows for p in later] == [4, 1, 1, 1]  # catch-up, then one draft a step
    reads = [f.role for f in of_pass(frames, verify.id) if f.command == "GET_TENSOR"]
    assert reads == ["logits", "draft_hidden"]
    catch_up = {f.role for f in of_pass(frames, later[0].id)}
    assert {"embedding_in", "draft_hidden", "graph"} <= catch_up
    assert not any(f.command == "GET_TENSOR" for f in of_pass(frames, later[0].id))
    reads = [f.role for f in of_pass(frames, later[1].id) if f.command == "GET_TENSOR"]
    assert reads == ["draft_hidden", "sampling", "sampling"]


def rename(frame: Frame) -> None:
    """Call every tensor leaf_N, in the graph and in the requests."""
    tensor = frame.tensor
    if tensor is not None:
        at = tensor.layout.at["name"]
        raw = bytearray(tensor.raw)
        raw[at : at + 64] = b"leaf_7".ljust(64, b"\0")[: max(0, len(raw) - at)]
        frame.tensor = TensorRecord(bytes(raw), tensor.layout)
    if frame.graph is not None:
        tensors = frame.graph.tensors.copy()
        tensors["name"] = [f"leaf_{i}".encode() for i in range(len(tensors))]
        frame.graph.tensors = tensors


@pytest.mark.parametrize("name", NAMES)
def test_renaming_every_tensor_changes_nothing(name: str) -> None:
    def meaning(frames: list[Frame]) -> list[tuple[object, ...]]:
        return [(f.number, f.direction, f.role, f.phase, f.pass_id) for f in frames]

    session, frames, _ = recorded(name)
    renamed, others, _ = read(name, rename)
    assert meaning(others) == meaning(frames)
    assert [asdict(r) for r in renamed.run.requests] == [asdict(r) for r in session.run.requests]


@pytest.mark.parametrize("name", [n for n in NAMES if "snap" not in n])
def test_nothing_stays_unknown(name: str) -> None:
    _, frames, _ = recorded(name)
    assert not [f for f in frames if f.role == "unknown" or f.phase == "other"]


@pytest.mark.parametrize("name", NAMES)
def test_an_upload_belongs_to_the_graph_that_follows(name: str) -> None:
    """The join rule, checked against the graphs themselves rather than by our own bookkeeping."""
    _, frames, _ = recorded(name)
    waiting: dict[tuple[int, int], list[Frame]] = {}
    for f in frames:
        if f.direction == UP and f.command == "SET_TENSOR" and f.pass_id >= 0:
            waiting.setdefault((f.connection.id, f.pass_id), []).append(f)
        elif f.direction == UP and f.graph is not None:
            known = set(f.graph.tensors["id"].tolist())
            for upload in waiting.pop((f.connection.id, f.pass_id), []):
                assert upload.tensor.id in known


def test_graph_views_are_shared_by_equal_structures() -> None:
    _, _, passes = recorded("v2.0.0-llama-bench")
    views = {id(s.view) for p in passes if p.group.phase == "decode" for s in p.steps}
    assert len(views) == 1
    assert passes[-1].steps[0].view is not None
    assert passes[-1].steps[0].view.hidden_size == 256
    assert np.all([p.kv_len for p in passes if p.group.phase == "decode"])

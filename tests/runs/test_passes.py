"""Passes: steps of one ubatch on one or several workers, warm-ups, phases."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bundled import NAMES
from tests.runs.recorded import recorded

#: Passes of each phase as the runs' flags say: two-token warm-ups, prompts, tokens − 1.
PASSES = {
    "v7.0-llama-server": {"warmup": 1, "prefill": 2, "decode": 23 + 15},
    "v7.0-defaults": {"warmup": 2, "prefill": 2, "decode": 15 + 11},
    "v7.0-two-servers": {"warmup": 1, "prefill": 1, "decode": 23},
    "v7.0-qwen35-plain": {"warmup": 1, "prefill": 2, "decode": 23},
    "v2.0.0-llama-bench": {"warmup": 2, "prefill": 2, "decode": 15},
    "v3.6.1-llama-bench": {"warmup": 2, "prefill": 2, "decode": 15},
}


@pytest.mark.parametrize("name", PASSES)
def test_passes_of_each_phase(name: str) -> None:
    session, _, passes = recorded(name)
    assert Counter(p.group.phase for p in passes) == PASSES[name]
    for phase, count in PASSES[name].items():
        assert session.run.totals.phases[phase].passes == count


def test_a_pass_over_two_workers_is_one_pass() -> None:
    _, _, passes = recorded("v7.0-two-servers")
    assert {len(p.places) for p in passes} == {2}
    assert {len(p.steps) for p in passes} == {2}


def test_target_and_head_are_two_contexts() -> None:
    _, _, passes = recorded("v7.0-qwen35-mtp")
    heads = {p.context.id: p.context.is_head for p in passes}
    assert sorted(heads.values()) == [False, True]
    assert all(p.context.is_head for p in passes if p.group.phase == "draft")


def test_only_clears_of_a_warm_up_are_warm_up() -> None:
    _, frames, _ = recorded("v7.0-llama-server")
    clears = [f.phase for f in frames if f.command == "BUFFER_CLEAR" and f.direction == 0]
    assert Counter(clears) == {"load": 2, "warmup": 1}


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_has_one_phase_and_the_books_balance(name: str) -> None:
    session, frames, _ = recorded(name)
    totals = session.run.totals
    total = sum(f.bytes for f in frames)
    assert sum(t.up + t.down for t in totals.by_phase().values()) == total
    assert sum(t.up + t.down for t in totals.by_role().values()) == total
    assert sum(c.tally.up + c.tally.down for c in totals.by_command().values()) == total
    rpc = [c for c in session.connections.values() if c.recognised]
    stream = sum(half.next for c in rpc for half in c.tcp.sides)
    assert total + sum(c.undecoded_bytes for c in rpc) == stream


@pytest.mark.parametrize("name", NAMES)
def test_frames_come_out_in_the_order_they_were_completed(name: str) -> None:
    _, frames, _ = recorded(name)
    order = [f.end_number for f in frames if f.direction == 0]
    assert order == sorted(order)

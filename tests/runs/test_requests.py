"""Requests from passes: each test is a transcript of positions as llama-server sends them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rpcwire.runs.passes import Context, Pass
from rpcwire.runs.requests import RequestTracker


@dataclass
class Script:
    """Feeds passes of one target context."""

    late: bool = False

    def __post_init__(self) -> None:
        self.tracker = RequestTracker()
        self.context = Context(0, is_new=not self.late)
        self.count = 0
        self.clock = 0

    def target(
        self,
        positions: list[int] | range | None,
        outputs: list[int] | int | None = None,
        rows: int | None = None,
        restored: bool = False,
    ) -> str:
        """A pass over these positions; `outputs`: rows asked for (default: the last)."""
        p = self._pass(positions, rows)
        p.restored_before = restored
        if isinstance(outputs, int):
            p.output_rows = outputs
        else:
            asked = [p.rows - 1] if outputs is None else outputs
            p.output_rows, p.output_ids = len(asked), np.array(asked, np.int64)
        return self.tracker.target(p)

    def draft(self, positions: list[int] | range) -> str:
        return self.tracker.draft(self._pass(positions, None))

    def shift(self, by: int) -> None:
        p = self._pass([-by, 0], None)
        self.tracker.shift(p)

    def _pass(self, positions: list[int] | range | None, rows: int | None) -> Pass:
        self.clock += 10
        p = Pass(self.count, self.context, self.clock)
        p.group.end_ns = self.clock + 5
        p.ordinal, self.count = self.count, self.count + 1
        if positions is not None:
            p.positions = np.array(list(positions), np.int64)
        p.rows = rows if rows is not None else len(positions or [])
        return p

    def counts(self) -> list[tuple[int | None, ...]]:
        self.tracker.finish()
        return [
            (r.prompt_tokens, r.generated_tokens, r.draft_tokens, r.accepted_tokens)
            for r in self.tracker.requests
        ]


def test_a_prompt_and_its_tokens() -> None:
    s = Script()
    assert s.target(range(20)) == "prefill"
    assert [s.target([20 + i]) for i in range(4)] == ["decode"] * 4
    assert s.counts() == [(20, 5, None, None)]
    assert not s.tracker.requests[0].inferred


def test_a_prompt_over_several_ubatches_is_one_request() -> None:
    s = Script()
    s.target(range(512), outputs=[])
    s.target(range(512, 1024), outputs=[])
    s.target(range(1024, 1400))
    s.target([1400])
    assert s.counts() == [(1400, 2, None, None)]


def test_a_cached_prefix_is_not_computed_again() -> None:
    s = Script()
    s.target(range(20))
    s.target([20])
    assert s.target(range(21, 30)) == "prefill"  # the conversation goes on behind it
    s.target([30])
    assert s.target([18]) == "prefill"  # the whole prompt was cached but its last token
    s.target([19])
    assert s.counts() == [(20, 2, None, None), (9, 2, None, None), (1, 2, None, None)]


def test_an_answer_of_one_token() -> None:
    s = Script()
    s.target(range(10))
    s.target(range(12))
    assert s.counts() == [(10, 1, None, None), (12, 1, None, None)]


def test_an_aborted_prompt_generates_nothing() -> None:
    s = Script()
    s.target(range(512), outputs=[])
    s.target(range(8))
    s.target([8])
    assert s.counts() == [(512, 0, None, None), (8, 2, None, None)]


def test_what_a_round_kept_is_how_far_the_next_one_starts() -> None:
    s = Script()
    s.target(range(10))
    for start in (10, 11, 14, 16):  # kept 0, 2 and 1 of three drafts
        for i in range(3):
            s.draft([start + i])
        assert s.target(range(start, start + 4), outputs=[0, 1, 2, 3]) == "verify"
        assert s.draft(range(start, start + 4)) == "draft"
    s.target([17])
    assert s.counts() == [(10, 1 + 1 + 3 + 2 + 1 + 1, 12, 3)]


def test_the_last_round_is_the_likeliest_reading() -> None:
    s = Script()
    s.target(range(10))
    s.target(range(10, 14), outputs=[0, 1, 2, 3])
    assert s.counts() == [(10, 5, 3, 3)]
    assert s.tracker.requests[0].inferred


def test_a_prompt_is_not_a_round() -> None:
    s = Script()
    s.target(range(10))
    s.target(range(10, 14), outputs=[0, 1, 2, 3])
    assert s.target(range(12, 16)) == "prefill"  # one result asked for: a prompt of four rows
    assert [c[0] for c in s.counts()] == [10, 4]


def test_a_round_replayed_after_a_restore_counts_once() -> None:
    """Four drafts, one kept: state is restored and that one computed again with the next token."""
    s = Script()
    s.target(range(10))
    s.target(range(10, 15), outputs=[0, 1, 2, 3, 4])
    assert s.target(range(10, 13), outputs=[0, 1, 2], restored=True) == "verify"
    s.target([13])
    assert s.counts() == [(10, 1 + 3 + 1, 4, 1)]


def test_slots_that_generate_side_by_side() -> None:
    s = Script()
    s.target(range(20))
    s.target([20, *range(7)], outputs=[0, 7])
    for i in range(5):
        assert s.target([21 + i, 7 + i], outputs=[0, 1]) == "decode"
    assert s.counts() == [(20, 7, None, None), (7, 6, None, None)]


def test_neighbouring_positions_of_two_slots_are_not_a_draft() -> None:
    s = Script()
    s.target(range(20))
    s.target([20, *range(19)], outputs=[0, 19])
    s.target([21, 19], outputs=[0, 1])
    assert s.target([22, 20], outputs=[0, 1]) == "decode"
    t = Script()
    t.target(range(19))
    t.target([19, *range(20)], outputs=[0, 20])
    assert t.target([20, 20], outputs=[0, 1]) == "decode"
    assert t.target([21, 21], outputs=[0, 1]) == "decode"
    assert t.counts() == [(19, 4, None, None), (20, 3, None, None)]


def test_two_prompts_in_one_pass_with_the_outputs_only_counted() -> None:
    s = Script()
    s.target([*range(88), *range(88)], outputs=1)
    assert s.target(range(88, 120), outputs=1) == "prefill"
    s.target([88, 120], outputs=2)
    assert sorted(s.counts()) == [(88, 2, None, None), (120, 2, None, None)]


def test_a_context_shift_goes_on_with_the_request() -> None:
    s = Script()
    s.target(range(10))
    for i in range(10, 20):
        s.target([i])
    s.shift(8)
    assert s.target([12]) == "decode"
    s.target([13])
    assert s.counts() == [(10, 13, None, None)]


def test_lost_passes_are_bridged_by_their_positions() -> None:
    s = Script()
    s.target(range(10))
    s.target([10])
    s.target([14])
    assert s.counts() == [(10, 6, None, None)]
    assert s.tracker.requests[0].inferred


def test_a_capture_that_began_in_mid_run() -> None:
    s = Script(late=True)
    assert s.target([500]) == "decode"
    s.target([501])
    assert s.counts() == [(0, 3, None, None)]  # the first token came before
    assert s.tracker.requests[0].inferred


def test_positions_that_were_not_captured() -> None:
    s = Script()
    assert s.target(None, outputs=1, rows=30) == "prefill"
    assert s.target(None, outputs=1, rows=1) == "decode"
    assert s.target(None, outputs=1, rows=1) == "decode"
    assert s.counts() == [(30, 3, None, None)]
    assert s.tracker.requests[0].inferred


def test_llama_bench_reads_a_result_after_each_batch_of_a_prompt() -> None:
    s = Script()
    s.tracker.bench = True
    s.target(range(256))
    s.target(range(256, 512))
    s.target(range(512, 700))
    s.target(range(256))
    assert s.counts() == [(700, 1, None, None), (256, 1, None, None)]


def test_rows_of_a_draft_head_in_the_prompt_are_prefill() -> None:
    s = Script()
    s.target(range(10))
    assert s.draft(range(10)) == "prefill"
    assert s.draft([10]) == "draft"

"""What a page gathers: timelines, single tokens, lanes, distributions."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcwire.report.lanes import exclusive, lanes, united
from rpcwire.report.samples import Exchange, Sample, Sampler
from rpcwire.report.timeline import BINS, Timeline
from rpcwire.report.times import DECADES, PER_DECADE, Histogram, edge_ms

from .pages import run

NAMES = ("v7.0-qwen35-mtp", "v7.0-two-servers", "v2.0.0-llama-bench", "v7.0-link-1gbe")


def frame(start: int, end: int, size: int, phase: str = "decode", direction: int = 0) -> Any:
    return SimpleNamespace(
        time_ns=start, end_ns=end, bytes=size, phase=phase, direction=direction, request=None
    )


# -- timeline --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_is_on_the_timeline(name: str) -> None:
    found = run(name)
    phases = found.analysis.phases.values()
    up, down = found.evidence.whole.bytes
    assert sum(up) == pytest.approx(sum(p.bytes_up for p in phases))
    assert sum(down) == pytest.approx(sum(p.bytes_down for p in phases))
    assert 0 < found.evidence.whole.used <= BINS


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**19), st.integers(0, 10**12), st.integers(0, 1 << 40),
            st.sampled_from(["load", "decode", "prefill"]), st.integers(0, 1),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_timeline_takes_any_times(given_frames: list[tuple[int, int, int, str, int]]) -> None:
    timeline = Timeline()
    for start, length, size, phase, direction in given_frames:
        timeline.frame(frame(start, start + length, size, phase, direction))
    total = sum(size for _, _, size, _, _ in given_frames)
    assert sum(map(sum, timeline.bytes)) == pytest.approx(total)
    assert timeline.used <= BINS
    for shares in timeline.shares().values():
        assert all(0 <= share <= 1 for share in shares)


def test_bins_get_wider_as_time_goes_on() -> None:
    timeline = Timeline()
    for second in range(3 * 3600):
        timeline.frame(frame(second * 10**9, second * 10**9 + 1000, 100))
    assert timeline.width_ns * timeline.used >= 3 * 3600 * 10**9 * 0.99
    assert timeline.used > BINS // 2 - 1
    rates = timeline.rates(0)[:-1]
    assert min(rates) == pytest.approx(max(rates), rel=0.1)
    assert min(rates) == pytest.approx(100, rel=0.1)


# -- single tokens ---------------------------------------------------------------------------------


def test_tokens_are_told_apart() -> None:
    kept = run("v7.0-two-servers").evidence.sampler.kept
    assert {kind: k.durations.count for kind, k in kept.items()} == {"prefill": 1, "decode": 23}
    found = run("v7.0-qwen35-mtp")
    assert found.evidence.sampler.kept["verify"].durations.count == (
        found.analysis.phases["verify"].passes
    )


@pytest.mark.parametrize("name", NAMES)
def test_chosen_samples(name: str) -> None:
    sampler = run(name).evidence.sampler
    chosen = sampler.chosen()
    for kind, kept in sampler.kept.items():
        mine = {which: s for which, s in chosen if s.kind == kind}
        words = ", ".join(mine)
        assert all(word in words for word in ("median", "slowest", "first"))
        assert max(s.duration_ns for s in mine.values()) == kept.durations.high
    numbers = [s.pass_id for _, s in chosen]
    assert len(numbers) == len(set(numbers))
    for _, sample in chosen:
        assert sample.exchanges
        first = min(e.up_ns[0] for e in sample.exchanges if e.up_ns[0] >= 0)
        assert first == sample.start_ns
        assert all(e.up_ns[0] <= sample.end_ns for e in sample.exchanges)


def test_a_token_lasts_as_long_as_the_accounts_say() -> None:
    found = run("v7.0-two-servers")
    median = next(s for which, s in found.evidence.sampler.chosen() if "median" in which)
    assert found.analysis.per_token.ms is not None
    assert median.duration_ns / 1e6 == pytest.approx(found.analysis.per_token.ms, rel=0.15)


def test_memory_is_bounded() -> None:
    sampler = Sampler()
    connection = SimpleNamespace(client=("c", 1), server=("s", 2), id=1)
    number = 20_000
    for i in range(number):
        group = SimpleNamespace(phase="decode")
        context = SimpleNamespace(is_draft=False, is_head=False)
        sampler.passed(SimpleNamespace(id=i, rows=1, group=group, context=context))  # type: ignore[arg-type]
        took = 1000 + (i * 7919) % 1000
        for k in range(3):
            sampler.frame(
                SimpleNamespace(  # type: ignore[arg-type]
                    connection=connection, pass_id=i, time_ns=i * 10_000 + k, phase="decode",
                    end_ns=i * 10_000 + took, direction=0, request=None, response=None, tensor=None,
                    number=i, device=0, command="X", role="r", bytes=1, missing=0,
                )
            )  # fmt: skip
    sampler.finish()
    kept = sampler.kept["decode"]
    assert kept.durations.count == number
    assert len(kept.reservoir) < 64
    assert kept.first is not None and kept.first.pass_id == 0


# -- lanes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_lanes_fill_the_time(name: str) -> None:
    for _, sample in run(name).evidence.sampler.chosen():
        rows = lanes(sample, {})
        assert [lane.kind for lane in rows[:2]] == ["client", "wire"]
        parts = exclusive(rows, sample.duration_ns)
        assert sum(parts) == sample.duration_ns
        assert min(parts) >= 0


def test_workers_side_by_side_and_the_way_there() -> None:
    def exchange(server: str, sent: int, answered: int) -> Exchange:
        return Exchange(
            1, 1 if server == "a" else 2, (server, 1), 0, "GET_TENSOR", "logits", "decode", 0,
            "t", "F32", "4", 10, (sent, sent + 10), 2, 10, (answered, answered + 10), 0,
        )  # fmt: skip

    sample = Sample("decode", 0, 1, 1000, 2000)
    sample.exchanges = [exchange("a", 1000, 1500), exchange("b", 1020, 1800)]
    client, wire, *workers = lanes(sample, {("a", 1): 100})
    assert [w.intervals for w in workers] == [[(60, 450)], [(30, 800)]]
    assert client.intervals == [(810, 1000)]
    assert (0, 60) in wire.intervals
    assert exclusive([client, wire, *workers], 1000) == (190, 40, 770)


@given(st.lists(st.tuples(st.integers(-50, 150), st.integers(-50, 150))))
def test_united_intervals_do_not_meet(spans: list[tuple[int, int]]) -> None:
    found = united(spans, 0, 100)
    for (_, end), (start, _) in pairwise(found):
        assert end < start
    inside = {t for a, b in spans for t in range(max(0, a), min(100, b))}
    assert {t for a, b in found for t in range(a, b)} == inside


# -- distributions ---------------------------------------------------------------------------------


@given(st.integers(0, 1 << 70))
def test_a_duration_falls_between_the_edges_of_its_bin(value: int) -> None:
    histogram = Histogram()
    histogram.add(value)
    first, stop = histogram.filled()
    assert stop == first + 1
    if first:
        assert edge_ms(first) * 1e6 <= value * (1 + 1e-9)
    if stop < PER_DECADE * DECADES:
        assert value <= edge_ms(stop) * 1e6 * (1 + 1e-9)


def test_histograms_hold_every_answer() -> None:
    found = run("v7.0-qwen35-mtp")
    counts = {name: sum(h.counts) for name, h in found.evidence.times.commands.items()}
    requests = {c.command: c.count for c in found.analysis.commands if c.response_ms}
    assert counts == requests

"""What a capture lacks is counted and named, and the rest is still read."""

from __future__ import annotations

import io
import random

import pytest
from bundled import NAMES, counts
from capture.packets import ETHERTYPES, MACS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcwire.capture.reader import read_segments

from . import traces
from .results import Result, check_books, read, run
from .traces import load

few = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow], database=None
)
SERVERS = [name for name in NAMES if "bench" not in name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_one_percent_of_packets(name: str, seed: int) -> None:
    trace = load(name)
    r = run(traces.lose(trace, random.Random(seed)))
    check_books(r)
    # A file of whole packets: little more than what was lost cannot be decoded.
    if "snap" not in name:
        assert r.undecoded <= 2 * r.missing + 100_000
    assert r.stream_bytes <= run(trace).stream_bytes
    assert r.requests


@pytest.mark.parametrize("name", SERVERS)
def test_tokens_after_one_percent_loss(name: str) -> None:
    """Of the prompt and of what was generated, most is still counted."""
    truth = counts(name)
    r = run(traces.lose(load(name), random.Random(11)))
    for column in (0, 1):
        found = sum(int(request[column] or 0) for request in r.requests)
        true = sum(int(request[column] or 0) for request in truth)
        assert abs(found - true) <= max(4, 0.2 * true) or any(
            request.inferred for request in r.session.run.requests
        )


@few
@given(
    st.sampled_from(["v7.0-output-local", "v7.0-two-servers"]),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.sampled_from([0.0, 0.003, 0.05]),
    st.sampled_from([None, 0, 1, 8, 9, 60, 400]),
    st.tuples(st.integers(0, 1 << 32), st.lists(st.integers(0, 1 << 20), max_size=9)),
)
def test_any_loss(
    name: str, gone: tuple[float, float], share: float, cut: int | None, more: tuple[int, list[int]]
) -> None:
    seed, cuts = more
    rng = random.Random(seed)
    trace = traces.lose_range(load(name), min(gone), max(gone))
    trace = traces.lose(trace, rng, share)
    if cut is not None:
        trace = traces.snap(trace, cut)
    r = run(trace)
    check_books(r)
    again = run(trace, cuts)
    assert again.facts == r.facts
    assert again.requests == r.requests


@pytest.mark.parametrize("name", SERVERS)
def test_only_requests_captured(name: str) -> None:
    """Acknowledgements prove the responses, and the requests tell how long each one is."""
    if "snap" in name or "link" in name:
        pytest.skip("headers are missing, or acknowledgements come late")
    whole = run(load(name))
    r = run(traces.only(load(name), up=True))
    check_books(r)
    assert r.undecoded == 0
    assert [q[:4] for q in r.requests] == [q[:4] for q in whole.requests]
    down = {k: v for k, v in _down(whole).items() if k}
    # The answer to the last request of a connection may be acknowledged by nothing.
    for command, size in _down(r).items():
        assert abs(size - down[command]) <= 100, command


def _down(r: Result) -> dict[str, int]:
    return {n: c.tally.down for n, c in r.session.run.totals.by_command().items()}


def test_only_responses_captured() -> None:
    r = run(traces.only(load("v7.0-two-servers"), up=False))
    check_books(r)
    assert r.rpc
    assert all(f.direction for f in r.frames)


def test_every_byte_of_a_file_as_its_end() -> None:
    trace = load("v7.0-output-local")[:25]
    file = traces.pcapng(trace, 1, lambda p, v: MACS + ETHERTYPES[v] + p)
    assert len(file) < 10_000
    last = 0
    for end in range(200, len(file) + 1):
        r = read(read_segments([io.BytesIO(file[:end])]))
        check_books(r)
        seen = r.stream_bytes - r.missing
        assert seen >= last
        last = seen
    assert r.facts == run(trace).facts

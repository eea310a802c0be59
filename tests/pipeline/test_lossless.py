"""However the packets of a run were cut, ordered and repeated, it is the same run."""

from __future__ import annotations

import io
import random
from functools import cache

import pytest
from bundled import NAMES
from capture.packets import LINKS, Link
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcwire.capture.reader import read_segments

from . import traces
from .results import Result, check_books, read, run
from .traces import Trace, load

SMALL = ["v7.0-output-local", "v7.0-two-servers", "v3.6.1-llama-bench"]
few = settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow], database=None
)


@cache
def whole(name: str) -> Result:
    return run(load(name))


def same(r: Result, name: str) -> None:
    """The same frames with the same meaning, in the same order, and the same totals."""
    check_books(r)
    w = whole(name)
    assert r.totals == w.totals
    assert r.requests == w.requests
    assert r.by_connection == w.by_connection
    assert not r.missing
    assert not r.undecoded


CHANGES: dict[str, traces.Change] = {
    "split": lambda t, r: traces.split(t, r, 5),
    "join": traces.join,
    "swap": traces.swap,
    "duplicate": traces.duplicate,
    "resend": traces.resend,
    "wrap": traces.wrapped,
    "ipv6": lambda t, r: traces.to_v6(t),
    "twice": lambda t, r: traces.seen_twice(t),
    "nat": traces.behind_nat,
    "others": traces.among_others,
    "split and swap": lambda t, r: traces.swap(traces.split(t, r), r, 0.2),
    "all": lambda t, r: traces.among_others(
        traces.wrapped(traces.duplicate(traces.resend(traces.split(t, r), r), r), r), r
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SMALL)
def test_same_run(name: str, change: str) -> None:
    rng = random.Random(change)
    same(run(CHANGES[change](load(name), rng), [rng.randrange(5000) for _ in range(5)]), name)


@few
@given(
    st.sampled_from(SMALL),
    st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=4, unique=True),
    st.integers(0, 1 << 32),
    st.lists(st.integers(0, 1 << 20), max_size=20),
)
def test_any_changes_after_each_other(
    name: str, changes: list[str], seed: int, cuts: list[int]
) -> None:
    rng = random.Random(seed)
    trace = load(name)
    # Where it is seen twice, whatever changes the stream itself has happened before.
    twice = [c for c in changes if c in ("twice", "nat")][:1]
    for change in [*(c for c in changes if c not in ("twice", "nat")), *twice]:
        trace = CHANGES[change](trace, rng)
    same(run(trace, cuts), name)


@pytest.mark.parametrize("name", NAMES)
def test_batches_do_not_matter(name: str) -> None:
    rng = random.Random(name)
    trace = load(name)
    first = run(trace)
    again = run(trace, [rng.randrange(len(trace)) for _ in range(12)])
    assert again.facts == first.facts
    assert again.requests == first.requests


def test_one_packet_at_a_time() -> None:
    trace = load("v7.0-output-local")
    assert run(trace, range(len(trace))).facts == run(trace).facts


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("version", [4, 6])
def test_link_layers_and_ip_versions(link: Link, version: int) -> None:
    name = "v7.0-output-local"
    trace = load(name) if version == 4 else traces.to_v6(load(name))
    if version == 6:  # IPv6 says no length beyond 64 KiB
        trace = traces.split(trace, random.Random(1))
    if link.name == "padded":  # padding follows short frames only
        trace = [p for p in trace if p.length < 64_000]
    file = traces.pcapng(trace, link.number, link.wrap)
    r = read(read_segments([io.BytesIO(file)]))
    if link.name != "padded":
        same(r, name)
    check_books(r)


def test_containers_and_files() -> None:
    name = "v7.0-output-local"
    trace = load(name)
    same(read(read_segments([io.BytesIO(traces.pcap(trace))])), name)
    third = len(trace) // 3
    ring = [trace[:third], trace[third : 2 * third], trace[2 * third :]]
    same(read(read_segments([io.BytesIO(traces.pcap(part)) for part in ring])), name)
    shuffled: list[Trace] = [ring[2], ring[0], ring[1]]
    same(read(read_segments([io.BytesIO(traces.pcap(part)) for part in shuffled])), name)
    sides = [traces.only(trace, up=True), traces.only(trace, up=False)]
    same(read(read_segments([io.BytesIO(traces.pcap(part)) for part in sides])), name)

"""Windows and single requests: what they leave adds up to the whole."""

from __future__ import annotations

import pytest
from bundled import NAMES, analysis, capture, told

import rpcwire
from rpcwire import Analysis, UsageError
from rpcwire.window import Moment, Window, between

TWO = "v7.0-llama-server"


def both(rows: object) -> int:
    return sum(row.bytes_up + row.bytes_down for row in rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [TWO, "v7.0-qwen35-mtp", "v7.0-two-servers"])
def test_parts_add_up(name: str) -> None:
    whole = analysis(name)
    middle = whole.requests[0].start_s + 0.02
    parts = [
        rpcwire.analyze(capture(name), until=middle),
        rpcwire.analyze(capture(name), since=middle + 1e-9),
    ]
    for part in parts:
        assert both(part.phases.values()) == both(part.roles) == part.capture.stream_bytes
    assert sum(p.capture.stream_bytes for p in parts) == whole.capture.stream_bytes
    for phase, counted in whole.phases.items():
        assert sum(p.phases[phase].frames for p in parts) == counted.frames
        assert sum(p.phases[phase].passes for p in parts) == counted.passes
        assert sum(p.phases[phase].round_trips for p in parts) == counted.round_trips
    assert sum(p.per_token.tokens for p in parts) == whole.per_token.tokens


def test_a_window_around_everything_changes_nothing() -> None:
    whole, framed = analysis(TWO), rpcwire.analyze(capture(TWO), since=0, until=1e9)
    assert (framed.capture.since_s, framed.capture.until_s) == (0, 1e9)
    framed.capture.since_s = framed.capture.until_s = None
    framed.capture.notes = whole.capture.notes
    assert framed.to_dict() == whole.to_dict()


def test_one_request() -> None:
    second = rpcwire.analyze(capture(TWO), request=2)
    report = told(TWO)["requests"][1]
    assert [r.number for r in second.requests] == [2]
    assert second.requests[0].prompt_tokens == report["prompt_n"]
    assert second.requests[0].generated_tokens == report["predicted_n"]
    assert second.per_token.tokens == report["predicted_n"] - 1
    assert second.phases["load"].frames == 0
    assert second.per_token.ms == pytest.approx(report["predicted_per_token_ms"], rel=0.03)


@pytest.mark.parametrize("name", ["v7.0-ssh-tunnel", "v7.0-link-1gbe"])
def test_a_window_keeps_what_is_known_of_the_path(name: str) -> None:
    """Commands that are answered at once stand in the load, before the window."""
    whole, part = analysis(name).per_token, rpcwire.analyze(capture(name), request=1).per_token
    assert (part.rtt_ms, part.rtt_source) == (whole.rtt_ms, "rpc")
    assert part.network_ms == pytest.approx(whole.network_ms, rel=0.05)


def test_requests_share_out_all_of_decode() -> None:
    whole = analysis(TWO)
    each = [rpcwire.analyze(capture(TWO), request=n) for n in (1, 2)]
    assert sum(_up(a) for a in each) == _up(whole)


def _up(a: Analysis) -> int:
    return a.phases["decode"].bytes_up


@pytest.mark.parametrize("number", [0, 3])
def test_no_such_request(number: int) -> None:
    with pytest.raises(UsageError, match="requests 1 to 2"):
        rpcwire.analyze(capture(TWO), request=number)


def test_an_empty_window() -> None:
    a = rpcwire.analyze(capture(NAMES[0]), since=1e6)
    assert a.capture.stream_bytes == 0
    assert a.requests == []
    assert a.per_token.ms is None


FIRST = 1_795_958_965_903_808_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [("0", 0), ("12.5", 12_500_000_000), ("12.5s", 12_500_000_000), ("-1", -(10**9))],
)
def test_moments_in_seconds(text: str, ns: int) -> None:
    assert Moment(text).resolve(FIRST) == FIRST + ns


def test_moments_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    midday = 1_700_000_000 // 86_400 * 86_400 + 12 * 3600
    first = midday * 10**9 + 250
    assert Moment("12:00:05").resolve(first) == (midday + 5) * 10**9
    assert Moment("12:00:05.25").resolve(first) == (midday + 5) * 10**9 + 250_000_000
    assert Moment("11:59").resolve(first) == (midday - 60) * 10**9
    assert Moment("2023-11-14T12:00:01").resolve(first) == (midday + 1) * 10**9
    assert Moment("2023-11-14T13:00:01+01:00").resolve(first) == (midday + 1) * 10**9
    # A capture that began before midnight: 00:00:10 is the next day.
    late = (midday + 12 * 3600 - 20) * 10**9
    assert Moment("00:00:10").resolve(late) == late + 30 * 10**9


@pytest.mark.parametrize("text", ["", "noon", "25:00:00", "1e400x", "nan", "inf", "2023-13-01"])
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        Moment(text)


def test_windows() -> None:
    assert between(Moment("1"), Moment("2"), 0) == Window(10**9, 2 * 10**9)
    with pytest.raises(UsageError, match="window is empty"):
        between(Moment("2"), Moment("1"), 0)

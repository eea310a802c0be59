"""The catalogue, links given by hand, and time on a link."""

from __future__ import annotations

import pytest

from rpcwire.errors import UsageError
from rpcwire.links.catalogue import SEND_BUFFER, catalogue, find_link, given_link
from rpcwire.links.gpus import efficiency, find_gpu
from rpcwire.links.transfer import INITIAL_WINDOW, legs, link_time

CONTRACT = ("100mbe", "1gbe", "2.5gbe", "5gbe", "10gbe", "25gbe", "wifi5", "wifi6", "thunderbolt")


def test_every_entry_is_whole() -> None:
    links = catalogue()
    assert set(CONTRACT) <= {link.name for link in links}
    for link in links:
        low, mid, high = link.rtt_ms
        assert 0 < low <= mid <= high
        slow, usual, fast = link.mbit_s
        assert 0 < slow <= usual <= fast
        assert len(link.sources) == 2
        assert all(source.strip() for source in link.sources)
        if "wifi" in link.name:
            assert high > 2 * low  # a distribution, not a figure


def test_a_tunnel_adds_to_its_link() -> None:
    plain, ssh = find_link("1gbe"), find_link("1gbe+ssh")
    assert ssh.rtt_ms[1] > plain.rtt_ms[1]
    assert ssh.mbit_s[1] < plain.mbit_s[1]
    both = find_link("wifi6+wireguard+ssh")
    assert both.rtt_ms[1] > find_link("wifi6+wireguard").rtt_ms[1]
    for name in ("2gbe", "1gbe+vpn", "", "+ssh"):
        with pytest.raises(UsageError):
            find_link(name)


@pytest.mark.parametrize(
    ("rtt", "rate", "rtt_ms", "mbit"),
    [
        ("0.3ms", "940mbit", 0.3, 940),
        ("300us", "0.94gbit", 0.3, 940),
        ("0.0003s", "117.5MB/s", 0.3, 940),
        (".3", "940", 0.3, 940),
        ("0.3ms", "940Mbit/s", 0.3, 940),
    ],
)
def test_units_of_ping_and_iperf3(rtt: str, rate: str, rtt_ms: float, mbit: float) -> None:
    link = given_link(rtt, rate)
    assert link.rtt_ms[1] == pytest.approx(rtt_ms)
    assert link.mbit_s[1] == pytest.approx(mbit)


@pytest.mark.parametrize(("rtt", "rate"), [("x", "1"), ("-1ms", "1"), ("1ms", "0"), ("1 h", "1")])
def test_nonsense_is_refused(rtt: str, rate: str) -> None:
    with pytest.raises(UsageError):
        given_link(rtt, rate)


def test_round_trips_and_bytes() -> None:
    parts = legs([(1000, 0, False), (300, 5000, True), (200, 100, True), (50, 0, False)])
    assert [(leg.up, leg.down, leg.waits) for leg in parts] == [
        (1300, 5000, True),
        (200, 100, True),
        (50, 0, False),
    ]
    time = link_time(parts, 0.001, 1e6)
    assert time.latency == pytest.approx(0.002)
    assert time.transfer == pytest.approx(6650e-6)


def test_an_idle_connection_opens_its_window_anew() -> None:
    parts = legs([(10 * INITIAL_WINDOW, 100, True)])
    warm = link_time(parts, 0.02, 1e9)
    idle = link_time(parts, 0.02, 1e9, idle=True)
    assert idle.latency > warm.latency + 0.02
    short = legs([(INITIAL_WINDOW, 100, True)])
    assert link_time(short, 0.02, 1e9, idle=True) == link_time(short, 0.02, 1e9)
    # a link whose pipe is short is full at once
    assert link_time(parts, 0.0001, 1e7, idle=True) == link_time(parts, 0.0001, 1e7)


def test_a_long_pipe_is_limited_by_the_send_buffer() -> None:
    rtt, rate = given_link("100ms", "10gbit").case(1)
    assert rate == pytest.approx(SEND_BUFFER / rtt)


def test_cards_are_found_as_people_write_them() -> None:
    assert find_gpu("RTX 4060 Ti")[:2] == ("rtx-4060-ti", 288)
    assert find_gpu("nvidia geforce rtx 5060 ti")[1] == 448
    with pytest.raises(UsageError, match="rtx-4090"):
        find_gpu("4090")
    low, mid, high = efficiency().bandwidth
    assert 0 < low < mid < high <= 1

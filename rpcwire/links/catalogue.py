"""The catalogue of links (data/links.toml) and links given by hand."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rpcwire.errors import UsageError

#: Most bytes that a Linux sender keeps in flight on one connection (tcp_wmem's default maximum).
SEND_BUFFER = 4 << 20


@dataclass(frozen=True, slots=True)
class Link:
    """One link as a connection sees it.

    Attributes:
        name: what `--link` takes. title: for reading.
        rtt_ms: round trip of a small request, low, mid and high.
        mbit_s: payload rate in each direction, low, mid and high.
        sources: where the figures come from. given: by hand, not from the catalogue.
    """

    name: str
    title: str
    rtt_ms: tuple[float, float, float]
    mbit_s: tuple[float, float, float]
    sources: tuple[str, ...]
    given: bool = False

    def case(self, index: int) -> tuple[float, float]:
        """Seconds of a round trip and bytes a second: 0 the slow case, 1 mid, 2 the fast one."""
        rtt = self.rtt_ms[2 - index] / 1e3
        rate = self.mbit_s[index] * 1e6 / 8
        return rtt, min(rate, SEND_BUFFER / rtt) if rtt > 0 else rate


@cache
def _tables() -> tuple[dict[str, Link], dict[str, dict[str, object]]]:
    source = resources.files("rpcwire.data").joinpath("links.toml").read_text("utf-8")
    data = tomllib.loads(source)
    links = {
        name: Link(
            name,
            fields["name"],
            tuple(fields["rtt_ms"]),
            tuple(fields["mbit_s"]),
            tuple(fields["sources"]),
        )
        for name, fields in data["links"].items()
    }
    return links, data["tunnels"]


def catalogue() -> list[Link]:
    """All links of the catalogue, in its order."""
    return list(_tables()[0].values())


def find_link(name: str) -> Link:
    """A link by name, with `+ssh` or `+wireguard` for a tunnel over it.

    Raises:
        UsageError: the catalogue has no such link or tunnel.
    """
    links, tunnels = _tables()
    base, *over = name.strip().lower().split("+")
    if base not in links:
        raise UsageError(f"--link {name}: known links are {', '.join(links)}")
    link = links[base]
    for tunnel in over:
        if tunnel not in tunnels:
            raise UsageError(f"--link {name}: known tunnels are {', '.join(tunnels)}")
        link = tunnelled(link, tunnel)
    return link


def tunnelled(link: Link, tunnel: str) -> Link:
    """The same link through a tunnel of the catalogue."""
    fields = _tables()[1][tunnel]
    extra, factor, most = (float(str(fields[key])) for key in ("rtt_ms", "factor", "mbit_s"))
    low, mid, high = (min(rate * factor, most) for rate in link.mbit_s)
    a, b, c = (rtt + extra for rtt in link.rtt_ms)
    notes = fields["sources"]
    said = tuple(str(note) for note in notes) if isinstance(notes, list) else ()
    return Link(
        f"{link.name}+{tunnel}",
        f"{link.title}, {fields['name']}",
        (a, b, c),
        (low, mid, high),
        link.sources + said,
        link.given,
    )


_NUMBER = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:e[+-]?\d+)?)\s*([a-z/]*)\s*$", re.I)
#: What ping prints last: "rtt min/avg/max/mdev = 0.251/0.293/0.412/0.031 ms", or its figures alone.
_PING = re.compile(r"^(?:.*=)?\s*([\d.]+)/([\d.]+)/([\d.]+)(?:/[\d.]+)?\s*([a-zµ]*)\s*$", re.I)
_TIMES = {"": 1.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "s": 1e3}
_BITS = ("", "bit", "bit/s", "bits/s", "bits/sec", "bps")  # the last but one is iperf3's
_RATES = {
    "": 1.0,
    **{
        prefix + word: factor
        for prefix, factor in (("k", 1e-3), ("m", 1.0), ("g", 1e3))
        for word in _BITS
    },
}
_BYTE_RATES = {"KB/s": 8e-3, "MB/s": 8.0, "GB/s": 8e3, "MiB/s": 8.388608, "GiB/s": 8589.934592}
_BYTE_RATES |= {  # iperf3 -f K, M, G: binary multiples
    "KBytes/sec": 8 * 1024 / 1e6,
    "MBytes/sec": 8.388608,
    "GBytes/sec": 8589.934592,
}


def _parse(text: str, units: dict[str, float], what: str) -> float:
    match = _NUMBER.match(text.replace("µ", "u"))
    value = float(match[1]) if match else -1.0
    unit = match[2] if match else ""
    factor = _BYTE_RATES.get(unit) if units is _RATES else None
    factor = factor if factor is not None else units.get(unit.lower())
    if not match or factor is None or not 0 <= value * factor < 1e9:
        example = "0.3ms" if units is _TIMES else "940mbit"
        raise UsageError(f"{what} {text!r}: give {what} {example}, for example")
    return value * factor


def _round_trips(text: str) -> tuple[float, float, float]:
    """Low, middle and high of `--rtt`: one time, or ping's summary."""
    match = _PING.match(text)
    if match is None:
        return (_parse(text, _TIMES, "--rtt"),) * 3
    low, mid, high = (_parse(part + match[4], _TIMES, "--rtt") for part in match.groups()[:3])
    if not low <= mid <= high:
        raise UsageError(f"--rtt {text!r}: ping's figures are min/avg/max")
    return low, mid, high


def given_link(rtt: str, bandwidth: str | None, tunnel: str | None = None) -> Link:
    """A link from `--rtt` and `--bandwidth`, as ping and iperf3 report them.

    Raises:
        UsageError: not a time or a rate.
    """
    rtt_ms = _round_trips(rtt)
    rate = _parse(bandwidth, _RATES, "--bandwidth") if bandwidth else 941.0
    if rate <= 0:
        raise UsageError("--bandwidth must be more than 0")
    title = f"{rtt_ms[1]:g} ms, {rate:g} Mbit/s"
    source = "--rtt and --bandwidth" if bandwidth else "--rtt; rate of 1 Gbit Ethernet assumed"
    link = Link("given", title, rtt_ms, (rate,) * 3, (source,), given=True)
    return tunnelled(link, tunnel) if tunnel else link

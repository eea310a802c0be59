"""Figures in titles."""

from __future__ import annotations

from ipaddress import ip_address

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes with three digits: "12.4 kB"."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count /= 1000
        unit += 1
    return f"{count:.0f} bytes" if unit == 0 else f"{count:.3g} {_UNITS[unit]}"


def many(count: int, noun: str, plural: str = "") -> str:
    """A count and its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def is_loopback(host: str) -> bool:
    """Whether an address is of the host itself; what is no address is taken to be."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return True
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def ratio(part: float, whole: float) -> float:
    """A share; 0 of nothing."""
    return part / whole if whole else 0.0

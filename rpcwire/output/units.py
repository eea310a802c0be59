"""Figures as people read them: three digits, decimal units, thousands separated."""

from __future__ import annotations

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
DASH = "-"


def bytes_text(count: float | None) -> str:
    """Bytes in decimal units ("11.9 kB"), "-" for none or unknown."""
    if not count:
        return DASH
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_BYTES) - 1:
        value /= 1000
        unit += 1
    digits = f"{value:.0f}" if unit == 0 and value >= 1 else _digits(value)
    return f"{digits} {_BYTES[unit]}"


def number_text(value: float | None) -> str:
    """Three significant digits, thousands separated; "-" for unknown."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value == int(value) else _digits(value)


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.0995 else f"{value:.3f}"


def count_text(value: int | None) -> str:
    """A count with thousands separated, "-" for none or unknown."""
    return f"{value:,}" if value else DASH


def ms_text(value: float | None) -> str:
    """Milliseconds with their unit; seconds from 10,000 ms; "-" for unknown."""
    if value is None:
        return DASH
    return f"{number_text(value)} ms" if value < 9_999.5 else f"{number_text(value / 1e3)} s"


def seconds_text(value: float | None) -> str:
    """A duration given in seconds: ms below one, minutes from 120 s; "-" for none or unknown."""
    if not value:
        return DASH
    if value < 0.9995:
        return ms_text(value * 1e3)
    if value < 120:
        return f"{number_text(value)} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def share_text(part: float, whole: float) -> str:
    """A share in per cent: "45 %", "< 1 %"."""
    if not whole or not part:
        return DASH
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 0.95 else "< 1 %"


def plural(count: int, noun: str) -> str:
    """A count and its noun: "1 worker", "2 workers"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def trips_text(value: float | None) -> str:
    """Round trips and their noun, by the figure shown: "1 round trip", "1.02 round trips"."""
    shown = number_text(value)
    return f"{shown} round trip{'' if shown == '1' else 's'}"

"""Durations in bounded memory."""

from __future__ import annotations

_RESERVOIR = 4096


class Distribution:
    """Count, sum and quantiles of durations in bounded memory (every k-th value, k doubling)."""

    __slots__ = ("_skip", "_stride", "count", "high", "low", "total", "values")

    def __init__(self) -> None:
        self.count = self.total = 0
        self.low = self.high = 0
        self.values: list[int] = []
        self._stride = 1
        self._skip = 0

    def add(self, value_ns: int) -> None:
        """Take a duration in ns."""
        self.low = value_ns if not self.count else min(self.low, value_ns)
        self.high = max(self.high, value_ns)
        self.count += 1
        self.total += value_ns
        self._skip += 1
        if self._skip >= self._stride:
            self._skip = 0
            self.values.append(value_ns)
            if len(self.values) >= _RESERVOIR:
                self.values = self.values[::2]
                self._stride *= 2

    def quantile(self, q: float) -> int:
        """The value in ns below which a share q of the values lies; exact up to 4,096 values."""
        if not self.values:
            return 0
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    def summary_ms(self) -> dict[str, float] | None:
        """min, median, p95 and max in ms; None when nothing was measured."""
        if not self.count:
            return None
        return {
            "min": self.low / 1e6,
            "median": self.quantile(0.5) / 1e6,
            "p95": self.quantile(0.95) / 1e6,
            "max": self.high / 1e6,
        }

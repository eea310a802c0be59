"""The part of a capture that is asked for: a window of time, or one request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rpcwire.errors import UsageError

_DAY = timedelta(days=1)
_CLOCKS = ("%H:%M:%S.%f", "%H:%M:%S", "%H:%M")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as a user names it.

    Attributes:
        text: as it was written: seconds from the first packet ("12.5", "12.5s"), a clock time
            ("14:03:05", local time), or an ISO 8601 date and time (local without an offset).
    """

    text: str

    def __post_init__(self) -> None:
        self.resolve(0)

    def resolve(self, first_ns: int) -> int:
        """The moment in ns since the epoch, in a capture whose first packet is at `first_ns`.

        Raises:
            UsageError: the text names no moment.
        """
        text = self.text.strip()
        try:
            seconds = float(text.removesuffix("s"))
            return first_ns + int(seconds * 1e9)
        except (ValueError, OverflowError):
            pass
        try:
            return _clock(text, first_ns)
        except (ValueError, OverflowError, OSError):
            raise UsageError(
                f"{self.text!r} is no time: give seconds from the start (12.5), a clock time "
                "(14:03:05) or a date and time (2026-11-29T14:03:05)"
            ) from None


def _clock(text: str, first_ns: int) -> int:
    start = datetime.fromtimestamp(first_ns / 1e9).astimezone()
    for layout in _CLOCKS:
        try:
            time = datetime.strptime(text, layout).time()
        except ValueError:
            continue
        moment = datetime.combine(start.date(), time, start.tzinfo)
        # A capture that runs over midnight: the time is that of the next day.
        if start - moment > _DAY / 2:
            moment += _DAY
        break
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone()
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 10**9 + moment.microsecond * 1000


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when, in ns since the epoch; both ends belong to it."""

    low: int
    high: int

    def holds(self, time_ns: int) -> bool:
        """Whether a moment lies in the window."""
        return self.low <= time_ns <= self.high

    def meets(self, other: Window) -> Window:
        """What both windows hold."""
        return Window(max(self.low, other.low), min(self.high, other.high))


ALWAYS = Window(-(1 << 63), (1 << 63) - 1)


def between(since: Moment | None, until: Moment | None, first_ns: int) -> Window:
    """The window between two moments, open where one is None.

    Raises:
        UsageError: it ends before it begins.
    """
    low = ALWAYS.low if since is None else since.resolve(first_ns)
    high = ALWAYS.high if until is None else until.resolve(first_ns)
    if low > high:
        raise UsageError("--until is before --since: the window is empty")
    return Window(low, high)

"""Bookkeeping of places in a file where the chain of records is broken."""

from __future__ import annotations

from rpcwire.capture.health import CaptureHealth

# Places named one by one; the others are summed up.
NAMED_PLACES = 5
# Places after which the file is given up: each costs a search.
MAX_PLACES = 2000
# Bytes that must arrive before a search that ended undecided is tried again.
RETRY_BYTES = 64 << 10


class Damage:
    """Names what had to be skipped in one file.

    Args:
        health: counts and notes are added here.
        name: what notes call the file.
    """

    def __init__(self, health: CaptureHealth, name: str) -> None:
        self._health = health
        self._name = name
        self._since: int | None = None
        self._places = 0
        self._more_bytes = 0
        self._retry_at = 0

    @property
    def lost(self) -> bool:
        """Whether the next record is being searched for."""
        return self._since is not None

    @property
    def since(self) -> int:
        """Position of the break; meaningful while `lost`."""
        return self._since or 0

    def begin(self, position: int) -> None:
        """The chain broke at this byte of the (decompressed) file."""
        self._since = position
        self._retry_at = 0

    def cancel(self) -> None:
        """There was no break after all."""
        self._since = None

    def due(self, end: int, final: bool) -> bool:
        """Whether enough bytes came, up to position `end`, for another search."""
        if self._places >= MAX_PLACES or (end < self._retry_at and not final):
            return False
        self._retry_at = end + RETRY_BYTES
        return True

    def end(self, position: int, packet: int | None) -> None:
        """The chain goes on at this byte with this packet number, or (None) does not."""
        if self._since is None:
            return
        skipped = position - self._since
        self._health.skipped_bytes += skipped
        self._places += 1
        if self._places <= NAMED_PLACES:
            onward = "to the end" if packet is None else f"before packet {packet:,}"
            self._health.note(
                f"{self._name} is damaged at byte {self._since:,}: "
                f"{skipped:,} bytes were skipped {onward}"
            )
        else:
            self._more_bytes += skipped
        self._since = None

    def finish(self) -> None:
        """Sum up the places that were not named."""
        more = self._places - NAMED_PLACES
        if more > 0:
            self._health.note(
                f"{self._name} is damaged in {more:,} more places: "
                f"{self._more_bytes:,} bytes were skipped there"
            )

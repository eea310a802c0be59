"""Bytes, round trips and example frames by phase, role and moment."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rpcwire.runs.passes import TIMED
from rpcwire.runs.totals import EXAMPLES
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.totals import Tally, Totals

#: Moments: while tokens are generated, while a prompt is computed, any other time.
TOKENS, PROMPT, ELSE = "tokens", "prompt", "else"


@dataclass(slots=True)
class Cell:
    """Sums of frames, and the packet numbers of the first requests."""

    up: int = 0
    down: int = 0
    frames: int = 0
    trips: int = 0
    numbers: list[int] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Both directions."""
        return self.up + self.down

    def count(self, tally: Tally) -> None:
        """Add a tally of the totals."""
        self.up += tally.up
        self.down += tally.down
        self.frames += tally.frames
        self.trips += tally.round_trips
        self.numbers = sorted(self.numbers + tally.numbers)[:EXAMPLES]

    def add(self, other: Cell) -> None:
        """Add another cell to this one."""
        self.up += other.up
        self.down += other.down
        self.frames += other.frames
        self.trips += other.trips
        self.numbers += other.numbers[: EXAMPLES - len(self.numbers)]


def _moment(phase: str, weight: int) -> str:
    if phase in GENERATION or weight == TIMED:
        return TOKENS
    return PROMPT if weight or phase == "prefill" else ELSE


def moment(frame: Frame) -> str:
    """When a frame passed, as far as costs are concerned."""
    group = frame.group if frame.request is None else frame.request.group
    return _moment(frame.phase, group.weight if group is not None else 0)


class Tallies:
    """The totals of a run, by moment too.

    Args:
        totals: of the finished run.
    """

    def __init__(self, totals: Totals) -> None:
        self._cells: dict[tuple[str, str, str, str], Cell] = {}
        for (phase, role, command, _connection, weight), tally in totals.cells():
            key = (phase, role, _moment(phase, weight), command)
            self._cells.setdefault(key, Cell()).count(tally)

    def sum(
        self,
        *,
        phases: Container[str] | None = None,
        roles: Container[str] | None = None,
        moments: Container[str] | None = None,
        commands: Container[str] | None = None,
    ) -> Cell:
        """Sum of the cells that match; None matches all."""
        total = Cell()
        for key, cell in self._cells.items():
            wanted = zip(key, (phases, roles, moments, commands), strict=True)
            if all(allowed is None or word in allowed for word, allowed in wanted):
                total.add(cell)
        return total

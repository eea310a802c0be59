"""Bytes, round trips and example frames by phase, role and moment."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: Moments: while tokens are generated, while a prompt is computed, any other time.
TOKENS, PROMPT, ELSE = "tokens", "prompt", "else"
_EXAMPLES = 5


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

    def add(self, other: Cell) -> None:
        """Add another cell to this one."""
        self.up += other.up
        self.down += other.down
        self.frames += other.frames
        self.trips += other.trips
        self.numbers += other.numbers[: _EXAMPLES - len(self.numbers)]


def moment(frame: Frame) -> str:
    """When a frame passed, as far as costs are concerned."""
    if frame.phase in GENERATION:
        return TOKENS
    if frame.phase in ("prefill", "warmup"):
        return PROMPT if frame.phase == "prefill" else ELSE
    group = frame.group if frame.request is None else frame.request.group
    if group is None or not group.generation:
        return ELSE
    return TOKENS if group.timed else PROMPT


class Tallies:
    """Counts frames in the order in which they are released."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str, str], Cell] = {}
        self._last: dict[int, tuple[Frame, Cell]] = {}

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase and role are final."""
        phase = frame.phase
        when = TOKENS if phase in GENERATION else moment(frame)
        key = (phase, frame.role, when, frame.command)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell()
        cell.frames += 1
        if frame.direction != UP:
            cell.down += frame.bytes
            return
        cell.up += frame.bytes
        if len(cell.numbers) < _EXAMPLES:
            cell.numbers.append(frame.number)
        # Whether a request was a round trip is known when the next one has left.
        before = self._last.get(frame.connection.id)
        if before is not None:
            before[1].trips += before[0].trip
        self._last[frame.connection.id] = (frame, cell)

    def finish(self) -> None:
        """No more frames."""
        for frame, cell in self._last.values():
            cell.trips += frame.trip
        self._last.clear()

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

"""What the readers of both containers share: a chain of records, and finding it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from rpcwire.capture.buffer import Arena
from rpcwire.capture.damage import Damage
from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.packets import PacketBatch
from rpcwire.capture.resync import Layout, find_run


class ContainerReader(ABC):
    """Cuts packets from the bytes of a capture file, as they come.

    Args:
        arena: where the bytes arrive; its first byte is that of the file.
        health: counts and notes are added here.
        name: what notes call the file.

    Attributes:
        number: number of the next packet.
        opened: whether the header of the file (or section) was read.
    """

    layout: Layout

    def __init__(self, arena: Arena, health: CaptureHealth, name: str) -> None:
        self.number = 1
        self.opened = False
        self._arena = arena
        self._health = health
        self._name = name
        self._damage = Damage(health, name)

    @abstractmethod
    def read(self, final: bool = False) -> Iterator[PacketBatch]:
        """Hand on the packets that are complete.

        Args:
            final: whether no more bytes will come.
        """

    def finish(self) -> Iterator[PacketBatch]:
        """Hand on what only the end of the file completes, and name what is left over."""
        arena, damage = self._arena, self._damage
        yield from self.read(final=True)
        while self.opened and arena.start < arena.end and not damage.lost:
            # Either the file ends inside this record, or its length is wrong and more follow.
            cut = arena.position(arena.start)
            damage.begin(cut)
            yield from self.read(final=True)
            if damage.lost and damage.since == cut:
                damage.cancel()
                self._health.note(
                    f"{self._name} ends inside packet {self.number:,}: its last "
                    f"{arena.position(arena.end) - cut:,} bytes could not be used"
                )
                break
        damage.end(arena.position(arena.end), None)
        damage.finish()

    def _break(self, at: int) -> bool:
        """The record at this index is impossible: look for the next credible one."""
        self._arena.start = at
        self._damage.begin(self._arena.position(at))
        return True

    def _search(self, final: bool) -> bool:
        """Look for the record with which the chain goes on; False: it has not come."""
        arena = self._arena
        if not self._damage.due(arena.position(arena.end), final):
            return False
        # The broken record itself is not looked at again, however credible its header.
        low = max(arena.start, self._damage.since + 1 - arena.consumed)
        arena.start, found = find_run(arena.data, low, arena.end, self.layout, final)
        if found:
            self._damage.end(arena.position(arena.start), self.number)
        return found

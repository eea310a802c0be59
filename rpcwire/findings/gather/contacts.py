"""Which workers and connections were met, and the packets where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.ggml.place import end_place, place

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

Server = tuple[str, int]
_MOST = 4096


class Contacts:
    """Looks at every frame once.

    Attributes:
        first: worker to the packet number of its first frame. computing: workers that were sent a
            graph. connections: connection id to (first, last) packet number.
        holes: packets of the first frames with bytes that were not captured. cut: of frames with
            bytes that the snap length cut.
        unfinished: connections whose last frame is not whole, or a request.
    """

    def __init__(self) -> None:
        self.first: dict[Server, int] = {}
        self.computing: set[Server] = set()
        self._met: dict[int, list[int]] = {}
        self.holes: list[int] = []
        self.cut: list[int] = []

    @property
    def connections(self) -> dict[int, tuple[int, int]]:
        """(first, last) packet number by connection id."""
        return {key: (met[0], met[1]) for key, met in self._met.items()}

    @property
    def unfinished(self) -> set[int]:
        """Connections whose last frame is not whole, or a request."""
        return {key for key, met in self._met.items() if met[2]}

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase and role are final."""
        met = self._met.get(frame.connection.id)
        if met is None:
            if len(self._met) >= _MOST:
                return
            met = self._met[frame.connection.id] = [place(frame), 0, 0, 0]
            self.first.setdefault(frame.connection.server, place(frame))
        met[1] = end_place(frame)
        met[2] = frame.direction == UP or frame.bytes < frame.size
        if not met[3] and frame.command.startswith("GRAPH_"):
            met[3] = 1
            self.computing.add(frame.connection.server)
        if frame.missing and len(self.holes) < 5:
            self.holes.append(place(frame))
        if frame.truncated and len(self.cut) < 5:
            self.cut.append(place(frame))

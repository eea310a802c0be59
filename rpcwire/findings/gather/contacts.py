"""Which workers and connections were met, and the packets where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP

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
        self.connections: dict[int, tuple[int, int]] = {}
        self.holes: list[int] = []
        self.cut: list[int] = []
        self.unfinished: set[int] = set()

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase and role are final."""
        key = frame.connection.id
        known = self.connections.get(key)
        if known is not None:
            self.connections[key] = (known[0], frame.end_number)
        elif len(self.connections) < _MOST:
            server = frame.connection.server
            self.connections[key] = (frame.number, frame.end_number)
            self.first.setdefault(server, frame.number)
        if frame.direction == UP or frame.bytes < frame.size:
            self.unfinished.add(key)
        else:
            self.unfinished.discard(key)
        if frame.command.startswith("GRAPH_") and len(self.computing) < _MOST:
            self.computing.add(frame.connection.server)
        if frame.missing and len(self.holes) < 5:
            self.holes.append(frame.number)
        if frame.truncated and len(self.cut) < 5:
            self.cut.append(frame.number)

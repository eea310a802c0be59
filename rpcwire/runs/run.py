"""From frames to a run: the one place that knows what each command means for the accounts.

Frames come in the order in which they were completed; a frame leaves again, counted, once its
phase and role are final, in the same order. Nothing is kept for longer than that takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.runs.client import Client
from rpcwire.runs.totals import Totals

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.ggml.stream import RpcConnection
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.sequences import Request

_MAX_HELD = 200_000  #: frames; beyond it the oldest is given the phase "other"

Sink = Callable[["Frame"], None]


class RunBuilder:
    """Builds the accounts of a run, frame by frame.

    Args:
        on_frame: called with every frame, in order, when its phase and role are final.
        on_pass: called with every pass, in order, when its phase is final.
    """

    def __init__(
        self,
        on_frame: Sink | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        self.totals = Totals()
        self._clients: dict[str, Client] = {}
        self._by_connection: dict[RpcConnection, Client] = {}
        self._held: deque[Frame] = deque()
        self._on_frame = on_frame
        self._on_pass = on_pass
        self._passes = 0

    @property
    def clients(self) -> list[Client]:
        """Clients by address, in order of appearance."""
        return list(self._clients.values())

    @property
    def requests(self) -> list[Request]:
        """Requests of all clients, in order of start."""
        found = [r for c in self._clients.values() for r in c.tracker.requests]
        return sorted(found, key=lambda r: r.start_ns)

    def feed(self, frames: Iterable[Frame]) -> None:
        """Take frames, in order."""
        clients, held = self._by_connection, self._held
        for frame in frames:
            client = clients.get(frame.connection) or self._client(frame)
            held.append(frame)
            if frame.direction == UP:
                client.request(frame)
            else:
                client.response(frame)
        self._release()

    def finish(self) -> None:
        """No more frames: settle everything that waits."""
        for client in self._clients.values():
            client.finish()
        for frame in self._held:
            frame.phase = frame.phase or "other"
        self._release()

    def round_trip(self, request: Frame) -> None:
        """A request turned out to be a round trip: count it now, or when it is released."""
        request.trip = True
        if request.counted:
            self.totals.round_trip(request)

    def next_pass_id(self) -> int:
        """Number for a new pass."""
        self._passes += 1
        return self._passes - 1

    def settled(self, p: Pass) -> None:
        """A client has decided the phase of a pass."""
        totals = self.totals.phases[p.group.phase]
        totals.passes += 1
        totals.rows += p.rows
        if self._on_pass is not None:
            self._on_pass(p)

    def _client(self, frame: Frame) -> Client:
        address = frame.connection.client[0]
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = Client(self)
        self._by_connection[frame.connection] = client
        return client

    def _release(self) -> None:
        held = self._held
        released: list[Frame] = []
        while held and (held[0].phase or len(held) > _MAX_HELD):
            frame = held.popleft()
            if frame.direction != UP and frame.request is not None:
                frame.role = frame.request.role
            frame.phase = frame.phase or "other"
            frame.role = frame.role or "unknown"
            released.append(frame)
        self.totals.release(released)
        for frame in released:
            frame.counted = True
            if frame.trip:
                self.totals.round_trip(frame)
            if self._on_frame is not None:
                self._on_frame(frame)
            frame.request = None  # so that frames go by their reference counts

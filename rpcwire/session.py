"""The way of the data: captures to segments, streams, frames and a run."""

from __future__ import annotations

from collections.abc import Callable, Container
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rpcwire.ggml.stream import RpcConnection
from rpcwire.runs.run import RunBuilder
from rpcwire.tcp.assembler import Assembler, Delivery

if TYPE_CHECKING:
    from rpcwire.capture.segments import SegmentBatch
    from rpcwire.ggml.frame import Frame
    from rpcwire.ggml.versions import Dialect
    from rpcwire.runs.passes import Pass
    from rpcwire.tcp.connection import Connection

Source = str | Path | BinaryIO

#: By the packet that completed it, or showed what it belongs to.
_IN_ORDER = attrgetter("known", "connection.id")


class Session:
    """Everything between segments and the accounts of a run, fed batch by batch.

    Args:
        ports: only connections with one of these ports on either end; None takes all.
        on_frame, on_pass: see RunBuilder.
        on_delivery: called with what the assembler hands on, before frames are cut from it.
        on_cut: called with every frame in order, before phase and role are known.

    Attributes:
        run: the accounts.
        connections: of every TCP connection seen that carried data, in order of appearance.
    """

    def __init__(
        self,
        *,
        ports: Container[int] | None = None,
        on_frame: Callable[[Frame], None] | None = None,
        on_pass: Callable[[Pass], None] | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        on_cut: Callable[[Frame], None] | None = None,
    ) -> None:
        self.assembler = Assembler(ports=ports)
        self.run = RunBuilder(on_frame, on_pass)
        self.connections: dict[Connection, RpcConnection] = {}
        self._spoken: dict[tuple[str, int], tuple[Dialect, ...]] = {}
        self._on_delivery = on_delivery
        self._on_cut = on_cut

    def feed(self, batch: SegmentBatch) -> None:
        """Take the next segments."""
        self._take(self.assembler.feed(batch), batch.last_number)

    def finish(self) -> None:
        """No more segments."""
        self._take(self.assembler.finish(), None)
        frames = [f for rpc in self.connections.values() for f in rpc.finish()]
        self._hand_on(frames)
        self.run.finish()

    def _take(self, deliveries: list[Delivery], last: int | None) -> None:
        frames: list[Frame] = []
        for delivery in deliveries:
            if self._on_delivery is not None:
                self._on_delivery(delivery)
            rpc = self.connections.get(delivery.connection)
            if rpc is None:
                rpc = self.connections[delivery.connection] = RpcConnection(delivery.connection)
            for side in (0, 1):
                for span in delivery.spans[side]:
                    rpc.feed(side, span)
            self._compare(rpc)
            number = delivery.last_number if last is None else last
            frames += rpc.finish() if delivery.closed else rpc.settle(number)
        self._hand_on(frames)

    def _compare(self, rpc: RpcConnection) -> None:
        """What a worker said in a HELLO holds for its connections from before the capture."""
        if not rpc.recognised:
            return
        if rpc.protocol_source == "hello":
            if rpc.server not in self._spoken:
                self._spoken[rpc.server] = rpc.dialects
                for other in self.connections.values():
                    if other.recognised and other.server == rpc.server:
                        other.hint(rpc.dialects)
        elif not rpc.start_captured and rpc.server in self._spoken:
            rpc.hint(self._spoken[rpc.server])

    def _hand_on(self, frames: list[Frame]) -> None:
        frames.sort(key=_IN_ORDER)
        if self._on_cut is not None:
            for frame in frames:
                self._on_cut(frame)
        self.run.feed(frames)

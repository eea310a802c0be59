"""A capture written as it is, and decoded on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.capture.dissect import dissect
from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.parser import PacketParser
from rpcwire.record.outbox import Write
from rpcwire.session import Session

if TYPE_CHECKING:
    from rpcwire.capture.packets import PacketBatch


class Copier:
    """The counterpart of Slimmer that keeps every byte.

    Args:
        write: takes the packets.
        name: what errors call the capture.

    Attributes:
        session: what was decoded on the way. health: of the capture.
    """

    def __init__(self, write: Write, *, name: str) -> None:
        self.health = CaptureHealth()
        self.session = Session()
        self._parser = PacketParser(self.health, name)
        self._write = write

    @property
    def remarks(self) -> list[str]:
        """Nothing has to be said of a copy."""
        return []

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of a capture file.

        Raises:
            CaptureError: they are not those of a capture.
        """
        for batch in self._parser.feed(chunk):
            self._packets(batch)

    def finish(self) -> None:
        """Nothing more will come.

        Raises:
            CaptureError: nothing was a capture.
        """
        for batch in self._parser.finish():
            self._packets(batch)
        self.session.finish()

    def _packets(self, batch: PacketBatch) -> None:
        if not len(batch):
            return
        view = batch.data.data
        for time_ns, start, size, wire, link in zip(
            batch.time_ns.tolist(),
            batch.offset.tolist(),
            batch.captured.tolist(),
            batch.length.tolist(),
            batch.link.tolist(),
            strict=True,
        ):
            self._write(time_ns, link, bytes(view[start : start + size]), wire, -1)
        self.session.feed(dissect(batch, 0, self.health))

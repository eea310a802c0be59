"""A session that also hands out what passes between its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.session import Session

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.tcp.assembler import Delivery


class Tap(Session):
    """See Session.

    Attributes:
        deliveries: spans since `clear`. frames: frames since then, their roles maybe still open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[Delivery] = []
        self.frames: list[Frame] = []

    def clear(self) -> None:
        """Forget what was handed out."""
        self.deliveries = []
        self.frames = []

    def _take(self, deliveries: list[Delivery], last: int | None) -> None:
        self.deliveries += deliveries
        super()._take(deliveries, last)

    def _hand_on(self, frames: list[Frame]) -> None:
        self.frames += frames
        super()._hand_on(frames)

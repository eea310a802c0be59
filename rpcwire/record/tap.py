"""A session that also hands out what passes between its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rpcwire.session import Session

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.tcp.assembler import Delivery


class Tap(Session):
    """See Session.

    Attributes:
        deliveries: spans since `clear`.

    Args:
        on_cut: called with every frame before its meaning is known.
    """

    def __init__(self, on_cut: Callable[[Frame], None]) -> None:
        super().__init__()
        self.deliveries: list[Delivery] = []
        self._on_cut = on_cut

    def clear(self) -> None:
        """Forget what was handed out."""
        self.deliveries = []

    def _take(self, deliveries: list[Delivery], last: int | None) -> None:
        self.deliveries += deliveries
        super()._take(deliveries, last)

    def _hand_on(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._on_cut(frame)
        super()._hand_on(frames)

"""One segment as an object, for the path that takes them one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Endpoint = tuple[str, int]


class Packet(NamedTuple):
    """One segment on the slow path; `end` is 0 for the flow's first endpoint as sender.

    `data` is None while the payload is still in the batch's own data.
    """

    end: int
    seq: int
    ack: int
    flags: int
    window: int
    source: int
    captured: int
    length: int
    time_ns: int
    number: int
    file: int
    order: int
    data: Bytes | None = None

    def owned(self, data: Bytes) -> Packet:
        """The same with its payload copied out of the batch's buffer."""
        if self.data is not None:
            return self
        copy = data[self.source : self.source + self.captured].copy()
        return self._replace(source=0, data=copy)

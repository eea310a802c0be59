"""How a load spent its time, and how fast the path can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.ggml.place import place

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: Frames closer together than this belong to one transfer.
_PAUSE_NS = 2_000_000
#: A transfer must be this long to show the rate of the path.
_LONG = 1 << 20
_EXAMPLES = 5


@dataclass(slots=True)
class _Transfer:
    """Frames of one direction of a connection that follow one another at once."""

    start_ns: int
    end_ns: int
    bytes: int


class Loading:
    """Looks at uploads of weights, and at long transfers of any kind.

    Attributes:
        weights: bytes of weights sent. start_ns, end_ns: of the uploads, 0 without any.
        wire_ns, wait_ns, idle_ns: within that time: bytes of a request passing, waiting for an
            answer, and nothing under way because the client had nothing ready.
        hashed: tensors offered by hash. hits: those that the worker had. missed_bytes: sent in
            full after a miss. hit_bytes: not sent. numbers: packets of some offers that missed.
        weight_numbers: packets of some uploads.
        mbit_s: the highest rate of a long transfer; 0 when there was none.
    """

    def __init__(self) -> None:
        self.weights = 0
        self.start_ns = self.end_ns = 0
        self.wire_ns = self.wait_ns = self.idle_ns = 0
        self.hashed = self.hits = self.missed_bytes = self.hit_bytes = 0
        self.numbers: list[int] = []
        self.weight_numbers: list[int] = []
        self.mbit_s = 0.0
        self._transfers: dict[tuple[int, int], _Transfer] = {}
        self._ends: dict[int, int] = {}

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase and role are final."""
        self._transfer(frame)
        if frame.phase != "load" or not frame.role.startswith("weights"):
            key = frame.connection.id
            if self._ends.get(key, frame.end_ns) < frame.end_ns:
                self._ends[key] = frame.end_ns
            return
        self._spent(frame)
        if frame.command == "SET_TENSOR_HASH":
            if frame.direction != UP:
                self._offered(frame)
        elif frame.direction == UP:
            self.weights += frame.bytes
            if len(self.weight_numbers) < _EXAMPLES:
                self.weight_numbers.append(place(frame))

    def finish(self) -> None:
        """No more frames."""
        for transfer in self._transfers.values():
            self._rate(transfer)
        self._transfers.clear()

    def _spent(self, frame: Frame) -> None:
        self.start_ns = min(self.start_ns or frame.time_ns, frame.time_ns)
        before = self._ends.get(frame.connection.id)
        self.end_ns = max(self.end_ns, frame.end_ns)
        self._ends[frame.connection.id] = max(frame.end_ns, before or 0)
        if frame.direction != UP:
            if frame.request is not None:
                self.wait_ns += max(0, frame.time_ns - frame.request.end_ns)
            return
        self.wire_ns += frame.end_ns - frame.time_ns
        if before is not None:
            self.idle_ns += max(0, frame.time_ns - before)

    def _offered(self, frame: Frame) -> None:
        request = frame.request
        if request is None:
            return
        self.hashed += 1
        tensor = request.tensor
        size = tensor.nbytes if tensor is not None and tensor.ne else 0
        if frame.content and frame.content[0]:
            self.hits += 1
            self.hit_bytes += size
        else:
            self.missed_bytes += size
            if len(self.numbers) < _EXAMPLES:
                self.numbers.append(place(request))

    def _transfer(self, frame: Frame) -> None:
        key = (frame.connection.id, frame.direction)
        now = self._transfers.get(key)
        if now is not None and frame.time_ns - now.end_ns <= _PAUSE_NS and not frame.missing:
            now.end_ns = max(now.end_ns, frame.end_ns)
            now.bytes += frame.bytes
            return
        if now is not None:
            self._rate(now)
        if len(self._transfers) > 4096:
            self._transfers.clear()
        self._transfers[key] = _Transfer(frame.time_ns, frame.end_ns, frame.bytes)

    def _rate(self, transfer: _Transfer) -> None:
        span = transfer.end_ns - transfer.start_ns
        if transfer.bytes >= _LONG and span > 0:
            self.mbit_s = max(self.mbit_s, transfer.bytes * 8e3 / span)

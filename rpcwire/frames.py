"""Frames as rows: what `rpcwire frames` lists and `read_frames` returns.

Rows come while the capture is read, a frame once its phase is final; memory does not grow with
the capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from rpcwire.ggml.frame import UP
from rpcwire.ggml.tensor import type_name
from rpcwire.notes import damage
from rpcwire.reading import Completed, Reading, ReadOptions, Sources
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame


@dataclass(slots=True)
class FrameRow:
    """One request or response.

    Attributes:
        number: packet in the file that holds its first byte. file: which file, by name.
        time_s: of that packet, seconds from the first packet of the capture.
        connection: number of the TCP connection, as `connections[].id` of the analysis.
        direction: "up" (client to worker) or "down".
        command: as in the protocol; a response has its request's.
        bytes: of the stream, header included.
        tensor, tensor_type, shape: name, type and elements of the tensor it names; None without.
        phase, role: see docs/reading.md.
        device: of the worker. worker: address and port.
        pass_id: number of the pass it belongs to; None outside.
        response_ms: on a request, from its last byte to its response's first.
        missing_bytes, truncated_bytes: of `bytes`, never captured, or cut by the snap length.
    """

    number: int
    time_s: float
    connection: int
    direction: str
    command: str
    bytes: int
    tensor: str | None
    tensor_type: str | None
    shape: list[int] | None
    phase: str
    role: str
    device: int
    pass_id: int | None
    response_ms: float | None
    missing_bytes: int
    truncated_bytes: int
    worker: str
    file: str

    def to_dict(self, *, file: bool = False) -> dict[str, object]:
        """The row as the JSON document has it; `file`: with the file's name."""
        row: dict[str, object] = {
            ("pass" if name == "pass_id" else name): getattr(self, name) for name in self.__slots__
        }
        if not file:
            del row["file"]
        return row


class FrameReader:
    """Frames of a capture in order, to be read once; lists of some at a time.

    Keywords and errors are those of `rpcwire.analyze`.
    """

    def __init__(self, paths: Sources, **options: Unpack[ReadOptions]) -> None:
        self._completed = Completed()
        self._reading = Reading(paths, on_frame=self._completed.add, **options)
        self._health = self._reading.health
        self._workers: dict[int, str] = {}

    def __iter__(self) -> Iterator[list[FrameRow]]:
        """Read; the last list may be empty."""
        for _ in self._reading.steps():
            found = [self._row(f, asked) for f, asked in self._completed.ready()]
            if found:
                yield found
        yield [self._row(f, asked) for f, asked in self._completed.ready(everything=True)]

    @property
    def notes(self) -> list[str]:
        """What was wrong with the capture, and what is in no frame; complete at the end."""
        return damage(self._reading)

    def _row(self, frame: Frame, asked: Frame) -> FrameRow:
        """The row of a frame; `asked`: its request, or itself."""
        tensor = asked.tensor
        shape = list(tensor.ne) if tensor is not None else []
        answer = frame.response
        response_ms = None
        if frame.direction == UP and answer is not None:
            response_ms = max(0, answer.time_ns - frame.end_ns) / 1e6
        elsewhere = frame.pass_id if frame.pass_id >= 0 else asked.pass_id
        number = frame.connection.id
        worker = self._workers.get(number)
        if worker is None:
            worker = self._workers[number] = endpoint(frame.connection.server)
        return FrameRow(
            number=frame.number,
            time_s=(frame.time_ns - (self._health.first_ns or 0)) / 1e9,
            connection=number,
            direction="up" if frame.direction == UP else "down",
            command=frame.command,
            bytes=frame.bytes,
            tensor=(tensor.name or None) if tensor is not None else None,
            tensor_type=type_name(tensor.type) if shape else None,
            shape=shape or None,
            phase=frame.phase,
            role=frame.role,
            device=frame.device,
            pass_id=elsewhere if elsewhere >= 0 else None,
            response_ms=response_ms,
            missing_bytes=frame.missing,
            truncated_bytes=frame.truncated,
            worker=worker,
            file=self._health.files[frame.file],
        )

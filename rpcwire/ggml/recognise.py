"""Is a connection ggml RPC, and which side is the client?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcwire.ggml.credible import CONVINCED, LOOK_AHEAD, frame_points
from rpcwire.ggml.raw import HEAD_LIMIT
from rpcwire.ggml.versions import (
    DIALECTS,
    HELLO_ID,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    with_hello,
)

if TYPE_CHECKING:
    from rpcwire.ggml.framing import RequestReader, ResponseReader

_VERSION_SIZE = 3
_ALL = tuple(DIALECTS.values())
#: Payload bytes of the answers to HELLO.
HELLO_ANSWERS = frozenset(d.shapes[HELLO_ID].response for d in with_hello())


class Recogniser:
    """Looks for a client's requests, on either side unless the initiator is known.

    Args:
        up, down: readers of each side, as requests and as responses.
        probing: per side, whether the stream's first byte was not captured.
        client_side: side of the initiator, -1 while unknown.
    """

    def __init__(
        self,
        up: Sequence[RequestReader],
        down: Sequence[ResponseReader],
        probing: list[bool],
        client_side: int,
    ) -> None:
        self._up, self._down, self._probing = up, down, probing
        self._sides = (client_side,) if client_side >= 0 else (0, 1)

    def decide(self, final: bool) -> int | None:
        """Side of the client; -1: not yet known; None: the connection is something else.

        Args:
            final: nothing more will come.
        """
        found: list[tuple[int, int]] = []
        rejected = 0
        for side in self._sides:
            verdict = self._probe(side, final)
            if verdict is None:
                rejected += 1
            elif verdict >= 0:
                found.append((verdict, side))
        if found:
            return min(found)[1]
        return None if rejected == len(self._sides) else -1

    def _probe(self, side: int, final: bool) -> int | None:
        """Key of the packet that shows requests on a side; -1: not yet; None: they are not."""
        reader = self._up[side]
        if self._probing[side]:
            if final:
                reader.finish_search()
            reader.run()
            if not reader.searching and reader.tape.started:
                return reader.floor
            return self._hello_answered(side) if final else -1
        return self._probe_start(side, final)

    def _probe_start(self, side: int, final: bool) -> int | None:
        """The same where the stream's first bytes are at hand."""
        reader = self._up[side]
        header, more = reader.tape.read(0, REQUEST_HEADER)
        if len(header) < REQUEST_HEADER:
            if not more and reader.tape.end:
                self._probing[side] = True
                reader.lose()
                return self._probe(side, final)
            return self._hello_answered(side) if final else -1
        size = int.from_bytes(header[1:], "little")
        payload, _ = reader.tape.read(REQUEST_HEADER, min(size, HEAD_LIMIT))
        points = frame_points(header[0], size, payload, _ALL)
        if points is None:
            return None
        key = reader.tape.key_at(REQUEST_HEADER - 1)
        if header[0] == HELLO_ID or points >= CONVINCED - 1:
            return key
        seconded = self._seconded(side, header[0], size)
        if seconded is None and not final:
            return -1 if reader.tape.end < LOOK_AHEAD else None
        return None if seconded is False else key

    def _hello_answered(self, side: int) -> int:
        """Key of the answer to HELLO, where only the worker's side was captured; or -1."""
        if self._probing[1 - side] or self._up[side].tape.captured:
            return -1
        tape = self._down[1 - side].tape
        answer, _ = tape.read(0, RESPONSE_HEADER + _VERSION_SIZE)
        size = int.from_bytes(answer[:RESPONSE_HEADER], "little")
        if len(answer) < RESPONSE_HEADER + _VERSION_SIZE or size not in HELLO_ANSWERS:
            return -1
        return tape.key_at(RESPONSE_HEADER) if tuple(answer[RESPONSE_HEADER:]) >= (1, 0, 0) else -1

    def _seconded(self, side: int, command: int, size: int) -> bool | None:
        """Whether the answer to a first request, or the next request, fits it; None: not there."""
        answer, _ = self._down[1 - side].tape.read(0, RESPONSE_HEADER)
        shapes = [d.shapes[command] for d in _ALL if command in d.shapes]
        if len(answer) == RESPONSE_HEADER:
            return int.from_bytes(answer, "little") in {s.response for s in shapes}
        at = REQUEST_HEADER + size
        header, _ = self._up[side].tape.read(at, REQUEST_HEADER)
        if len(header) < REQUEST_HEADER:
            return None
        size = int.from_bytes(header[1:], "little")
        return frame_points(header[0], size, b"", _ALL) is not None

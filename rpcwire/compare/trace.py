"""When requests and answers passed, by connection: what two captures of one run have in common."""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rpcwire.findings.evidence import Evidence
from rpcwire.findings.gather.tallies import TOKENS, moment
from rpcwire.ggml.frame import UP

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: Frames that make a connection's fingerprint, and bytes of each.
_FRAMES, _BYTES = 48, 64
#: Answers kept of all connections.
_MOST = 4_000_000
#: Columns of a row: stream offset of the request, then ns.
OFFSET, SENT, SENT_ALL, ANSWERED, ANSWERED_ALL, IN_TOKENS = range(6)
_WIDTH = 6


class ConnectionTrace:
    """One connection.

    Attributes:
        fingerprint: equal for two captures of the same stream, whatever the addresses.
        frames: how many it stands on. bytes: of all frames.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0
        self._hashes = (hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16))
        self._hashed = [0, 0]
        self.rows: array[int] = array("q")

    def see(self, frame: Frame) -> None:
        """Take a frame of it."""
        self.bytes += frame.bytes
        side = frame.direction != UP
        # By direction: their order among one another depends on where the capture was taken.
        if self._hashed[side] < _FRAMES:
            self._hashed[side] += 1
            self.frames += 1
            front = f"{frame.command} {frame.offset} {frame.size} ".encode()
            # Answers carry contents, which a slimmed capture leaves out.
            self._hashes[side].update(front if side else front + bytes(frame.head[:_BYTES]))

    @property
    def fingerprint(self) -> bytes:
        """Of the first frames of both directions."""
        return self._hashes[0].digest() + self._hashes[1].digest()

    def table(self) -> NDArray[np.int64]:
        """int64[n, 6]: its answered requests, in order; columns OFFSET to IN_TOKENS."""
        return np.frombuffer(self.rows, np.int64).reshape(-1, _WIDTH)


class TracedEvidence(Evidence):
    """Evidence that also remembers when each answered request passed.

    Attributes:
        traces: by connection id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.traces: dict[int, ConnectionTrace] = {}
        self._kept = 0

    def frame(self, frame: Frame) -> None:
        """See a frame whose phase and role are final."""
        super().frame(frame)
        trace = self.traces.get(frame.connection.id)
        if trace is None:
            trace = self.traces[frame.connection.id] = ConnectionTrace()
        trace.see(frame)
        request = frame.request
        if frame.direction == UP or request is None or self._kept >= _MOST:
            return
        self._kept += 1
        trace.rows.extend(
            (
                request.offset,
                request.time_ns,
                request.end_ns,
                frame.time_ns,
                frame.end_ns,
                int(moment(request) == TOKENS),
            )
        )

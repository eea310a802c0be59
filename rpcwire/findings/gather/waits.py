"""Stalls, queries and greetings: what single frames show by their timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import PROMPT, TOKENS, moment
from rpcwire.ggml.frame import UP
from rpcwire.ggml.place import place
from rpcwire.runs.totals import TRIVIAL
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: A delayed acknowledgement of Linux (40 ms), with what scheduling adds.
STALL_LOW_NS, STALL_HIGH_NS = 36_000_000, 60_000_000
#: Frames up to this size travel at once unless something holds a part of them back.
_SMALL = 16 << 10
_EXAMPLES = 6
#: Payload of a packet, and sends of a request: command, size and payload.
_PACKET, _SENDS = 1448, 3
#: A greeting that waits longer stands in the worker's backlog.
_BACKLOG_NS = 400_000_000


class Waits:
    """Looks at every frame once.

    Attributes:
        stalls: by moment, frames of which a part came about 40 ms late, or that did so behind the
            one before. stall_ns: their time.
        late: by moment, reads that were answered about 40 ms late; computing may take as long.
        trivial_stalls: probes that were answered about 40 ms late; trivial: all answered probes.
        stall_numbers: packets of some.
        small, pieces: requests of tokens that fit into a packet, and packets more than one each.
        query_passes: passes of generation that size queries precede. query_numbers: some.
        greetings: (server, client, request number, ns) of HELLOs that waited long.
    """

    def __init__(self) -> None:
        self.stalls = {TOKENS: 0, PROMPT: 0, "else": 0}
        self.stall_ns = {TOKENS: 0, PROMPT: 0, "else": 0}
        self.late = {TOKENS: 0, PROMPT: 0, "else": 0}
        self.trivial_stalls = self.trivial = 0
        self.frames = 0
        self.stall_numbers: list[int] = []
        self.small = self.pieces = 0
        self.query_passes = 0
        self.query_numbers: list[int] = []
        self.greetings: list[tuple[tuple[str, int], tuple[str, int], int, int]] = []
        self._query_pass = -1
        self._before: dict[int, tuple[int, int, int]] = {}

    def frame(self, frame: Frame) -> None:
        """Take a frame whose phase and role are final."""
        self.frames += 1
        held = frame.end_ns - frame.time_ns
        before = self._before.get(frame.connection.id)
        self._before[frame.connection.id] = (frame.direction, frame.pass_id, frame.end_ns)
        if frame.direction == UP and before is not None and frame.pass_id >= 0:
            # Inputs of one pass follow one another at once: the client has them all.
            pause = frame.time_ns - before[2]
            same = before[0] == UP and before[1] == frame.pass_id
            if same and STALL_LOW_NS <= pause <= STALL_HIGH_NS:
                self._stall(frame, pause)
        if STALL_LOW_NS <= held <= STALL_HIGH_NS and frame.bytes <= _SMALL:
            self._stall(frame, held)
        if frame.direction == UP:
            if frame.bytes <= _PACKET and frame.phase in GENERATION:
                self.small += 1
                self.pieces += min(frame.end_number - frame.number, _SENDS - 1)
            if (
                frame.role == "alloc_query"
                and frame.phase in GENERATION
                and frame.pass_id != self._query_pass
            ):
                self._query_pass = frame.pass_id
                self.query_passes += 1
                if len(self.query_numbers) < _EXAMPLES:
                    self.query_numbers.append(place(frame))
            return
        request = frame.request
        if request is None:
            return
        waited = frame.time_ns - request.end_ns
        if frame.command in TRIVIAL:
            self.trivial += 1
            if STALL_LOW_NS <= waited <= STALL_HIGH_NS:
                self.trivial_stalls += 1
                self._example(request)
            if frame.command == "HELLO" and waited > _BACKLOG_NS and len(self.greetings) < 100:
                ends = frame.connection.server, frame.connection.client
                self.greetings.append((*ends, place(request), waited))
        elif (
            request.trip
            and STALL_LOW_NS <= waited <= STALL_HIGH_NS
            and request.command == "GET_TENSOR"
        ):
            self.late[moment(request)] += 1

    def _stall(self, frame: Frame, held: int) -> None:
        when = moment(frame)
        self.stalls[when] += 1
        self.stall_ns[when] += held
        self._example(frame)

    def _example(self, frame: Frame) -> None:
        if len(self.stall_numbers) < _EXAMPLES:
            self.stall_numbers.append(place(frame))

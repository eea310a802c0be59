"""Frames as cut out of a stream, before anybody understands them, and how much of them is kept."""

from __future__ import annotations

from dataclasses import dataclass

from rpcwire.ggml.credible import MOST_GRAPH
from rpcwire.ggml.frame import Frame
from rpcwire.ggml.versions import DIALECTS

HEAD_LIMIT = 380  #: payload bytes kept of every frame
CONTENT_LIMIT = 64 << 10  #: bytes of tensor data kept whole
_KEEP_WHOLE = CONTENT_LIMIT + HEAD_LIMIT

#: Id of the pseudo-command RDMA_SYNC.
SYNC_ID = -2

#: Command ids whose payload is a graph in some dialect.
_GRAPHS = frozenset(i for d in DIALECTS.values() for i, s in d.shapes.items() if s.is_graph)


def kept(command: int, size: int) -> int:
    """Payload bytes of a request or response (command -1) that are worth keeping."""
    if size <= _KEEP_WHOLE or (command in _GRAPHS and size <= MOST_GRAPH):
        return size
    return HEAD_LIMIT


@dataclass(slots=True)
class Hidden:
    """A frame whose length is known, but whose header was not wholly captured.

    Attributes:
        raw: the frame; its payload as far as it was captured, its command not yet known.
        header: the header's bytes, None for those that are missing.
    """

    raw: Raw
    header: tuple[int | None, ...]


@dataclass(slots=True)
class Gap:
    """A stretch that could not be decoded.

    Attributes:
        start, end: stream offsets.
        number, file: of the packet with its first byte.
        lost: key of the packet at which the stream fell out of step.
        key: of the packet by which its end was known.
        hidden: what it is if it is just one frame; None when that is out of the question.
    """

    start: int
    end: int
    number: int
    file: int
    lost: int
    key: int
    hidden: Hidden | None = None


@dataclass(slots=True)
class Raw:
    """A frame as cut out, not yet understood.

    Attributes:
        frame: with everything that its header and packets tell.
        command: id of a request, -1 for a response.
        payload: its first bytes, whole if they were kept and captured.
        first, last: keys of the packets with its first and its last byte.
        key: of the packet by which it was known.
    """

    frame: Frame
    command: int
    payload: bytes
    first: int
    last: int
    key: int

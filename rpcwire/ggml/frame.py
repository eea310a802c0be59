"""What the protocol layer hands on: one object a request or response."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpcwire.ggml.graph import Graph
    from rpcwire.ggml.stream import RpcConnection

UP, DOWN = 0, 1  #: direction: client to worker, worker to client


@dataclass(slots=True, eq=False)
class Frame:
    """One request or one response, header included.

    Attributes:
        connection: where it was seen; `connection.layout` knows where the fields are.
        direction: UP (request) or DOWN (response).
        command: name as in the protocol tables ("SET_TENSOR"); a response has its request's;
            "UNKNOWN_<id>" for an id no table knows.
        number, file: packet (and file) that holds the frame's first byte.
        time_ns, end_ns: capture time of the packets that hold the first and the last byte.
        end_number: number of the packet that completed the frame.
        offset: stream offset in bytes of the first byte.
        size: bytes of the whole frame as its header claims, header included.
        bytes: stream bytes that count for it: size when complete, else the bytes seen or proved.
        missing: of `bytes`, those never captured. truncated: those cut by the snap length.
        head: the payload's first bytes as captured (up to HEAD_LIMIT, or to the first hole).
        tensor: the tensor that a *_TENSOR request names, as a record of ggml.tensor.TENSOR
            (for COPY_TENSOR the source), or None.
        data_offset, data_size: bytes within the tensor that a SET/GET/HASH/MEMSET request moves
            (-1 where it has none, or it was not captured).
        content: the tensor data of a SET_TENSOR, or the payload of a response, when it was wholly
            captured and is at most CONTENT_LIMIT bytes; else None.
        device: device number of commands that carry one, else 0.
        graph: of GRAPH_COMPUTE, when wholly captured; else None.
        request, response: the other half; None when there is none, or it was not captured.
        known: place, in the order of all packets, at which the frame was complete and its other
            half known; never falls from one frame handed on to the next.
        role, phase, pass_id, group, next_ns, trip, counted, tensor_id: filled in by the runs layer
            (next_ns: when the next request of the connection left; group: whatever decides the
            phase; trip: a round trip; counted: already in the totals; tensor_id: of an upload).
    """

    connection: RpcConnection
    direction: int
    command: str
    number: int
    file: int
    time_ns: int
    end_ns: int
    end_number: int
    offset: int
    size: int
    bytes: int
    missing: int = 0
    truncated: int = 0
    head: builtins.bytes = b""
    tensor: Any = None
    data_offset: int = -1
    data_size: int = -1
    content: builtins.bytes | None = None
    device: int = 0
    graph: Graph | None = None
    request: Frame | None = field(default=None, repr=False)
    response: Frame | None = field(default=None, repr=False)
    known: int = 0
    role: str = ""
    phase: str = ""
    pass_id: int = -1
    group: Any = field(default=None, repr=False)
    next_ns: int = 0
    trip: bool = False
    tensor_id: int = 0
    counted: bool = False

"""Reads the fields of a request into its frame."""

from __future__ import annotations

from rpcwire.ggml.frame import Frame
from rpcwire.ggml.graph import parse_graph
from rpcwire.ggml.raw import CONTENT_LIMIT
from rpcwire.ggml.tensor import TensorRecord
from rpcwire.ggml.versions import Dialect, Shape


def fill(frame: Frame, shape: Shape, dialect: Dialect, payload: bytes, size: int) -> None:
    """Read the fields of a request's payload, as far as it was captured."""
    have = len(payload)
    at = shape.device_at
    if at >= 0 and have >= 4:
        frame.device = int.from_bytes(payload[at : at + 4], "little")
    if shape.is_graph:
        if have == size:
            frame.graph = parse_graph(payload, dialect.layout, at == 0)
        return
    at = shape.tensor_at
    if at < 0 or have < at + 8:
        return
    layout = dialect.layout
    frame.tensor = record = TensorRecord(frame.head[at:], layout)
    at = shape.offset_at
    if at < 0 or have < at + 8:
        return
    offset = frame.data_offset = int.from_bytes(payload[at : at + 8], "little")
    at = shape.data_at
    if at >= 0:
        frame.data_size = size - at
        if have == size and have - at <= CONTENT_LIMIT:
            frame.content = payload[at:]
        return
    at = shape.size_at
    if at >= 0:
        if have >= at + 8:
            frame.data_size = int.from_bytes(payload[at : at + 8], "little")
    else:  # SET_TENSOR_HASH names no size: it stands for the rest of the tensor
        frame.data_size = max(0, record.nbytes - offset)

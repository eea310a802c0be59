"""What of a frame is kept in a slim capture, decided by what it carries, never by its size alone.

Every frame is header, descriptor, tensor data, in this order; so what is kept is always its front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.ggml.frame import UP
from rpcwire.ggml.raw import CONTENT_LIMIT
from rpcwire.ggml.versions import COMMAND_NAMES, REQUEST_HEADER, RESPONSE_HEADER

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: Uploads whose values say how the run went and nothing of what was said in it.
KEPT_ROLES = frozenset({"positions", "kv_indices", "kv_mask", "output_ids", "recurrent_ids"})
#: F32, F16, I32, I64: types of the uploads above; any other upload is dropped at sight.
KEPT_TYPES = frozenset({0, 1, 26, 27})
#: Commands and answers without tensor data are far smaller; a fork's may carry anything.
MOST_PLAIN = 16 << 10
UNKNOWN_KEPT = 16


def kept_bytes(frame: Frame, plain: int = MOST_PLAIN) -> int | None:
    """Bytes from the front of a frame, header included, that are kept.

    Args:
        frame: a request or response; its role may still be open.
        plain: bytes kept at most of messages without tensor data, graphs excepted.

    Returns:
        Between 0 and frame.size; None as long as only the role can tell, and it is not known.
    """
    return _request(frame, plain) if frame.direction == UP else _response(frame, plain)


def _request(frame: Frame, plain: int) -> int | None:
    command = frame.command
    if command == "SET_TENSOR":
        return _upload(frame)
    if command == "GRAPH_COMPUTE":
        return frame.size
    if command in COMMAND_NAMES:
        return min(frame.size, plain)
    return min(frame.size, REQUEST_HEADER + UNKNOWN_KEPT)


def _upload(frame: Frame) -> int | None:
    if frame.data_size < 0 or frame.tensor is None:
        return min(frame.size, REQUEST_HEADER + frame.connection.layout.layout.size)
    descriptor = frame.size - frame.data_size
    if frame.data_size > CONTENT_LIMIT or frame.tensor.type not in KEPT_TYPES:
        return descriptor
    if not frame.role:
        return None
    return frame.size if frame.role in KEPT_ROLES else descriptor


def _response(frame: Frame, plain: int) -> int:
    known = frame.command in COMMAND_NAMES and frame.command != "GET_TENSOR"
    if known and frame.request is not None and frame.size <= plain:
        return frame.size
    return RESPONSE_HEADER

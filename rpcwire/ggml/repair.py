"""What a frame was whose header was not captured, told from its length and its payload."""

from __future__ import annotations

from rpcwire.ggml.credible import CONVINCED, data_fits, fitting, record_points
from rpcwire.ggml.graph import counts
from rpcwire.ggml.raw import Hidden, Raw, kept
from rpcwire.ggml.tensor import TYPE_BY_ID, nbytes
from rpcwire.ggml.versions import REQUEST_HEADER, RESPONSE_HEADER, Dialect, Shape

#: What is likelier than others of its size once graphs are computed.
_WHILE_COMPUTING = ("GRAPH_RECOMPUTE", "GET_TENSOR")


def hidden_request(hidden: Hidden, dialects: tuple[Dialect, ...], *, computing: bool) -> Raw | None:
    """The request, where its command can be told.

    Args:
        hidden: what is known of it.
        dialects: those that come into question.
        computing: graphs were sent on the connection.

    Returns:
        None where no command fits, or several do.
    """
    raw, header = hidden.raw, hidden.header
    size = raw.frame.size - REQUEST_HEADER
    shown = header[1:]
    if any(b is not None and b != size >> 8 * i & 0xFF for i, b in enumerate(shown)):
        return None
    best, found = 0, dict[str, int]()
    for dialect in dialects:
        for command, shape in dialect.shapes.items():
            if header[0] not in (None, command) or not fitting(shape, size):
                continue
            points = _points(shape, dialect, size, raw.payload)
            if header[0] is None and shape.fixed < 0 and points < CONVINCED - 1:
                continue
            if points > best:
                best, found = points, {}
            if points == best > 0:
                found[shape.name] = command
    if computing and len(found) > 1:
        found = {n: found[n] for n in _WHILE_COMPUTING if n in found} or found
    if len(found) != 1:
        return None
    (command,) = found.values()
    raw.command, raw.payload = command, raw.payload[: kept(command, size)]
    return raw


def hidden_response(hidden: Hidden) -> Raw | None:
    """The response, unless what was captured of its header contradicts its length."""
    raw = hidden.raw
    size = raw.frame.size - RESPONSE_HEADER
    if any(b is not None and b != size >> 8 * i & 0xFF for i, b in enumerate(hidden.header)):
        return None
    raw.payload = raw.payload[: kept(raw.command, size)]
    return raw


def _points(shape: Shape, dialect: Dialect, size: int, payload: bytes) -> int:
    """How well a payload fits a command, 0: not at all; see credible.record_points."""
    if shape.is_graph:
        if len(payload) < shape.device_at + 8:
            return 1
        whole = counts(payload, size, dialect.layout, shape.device_at == 0)
        return CONVINCED if whole and whole[0] else 0
    if shape.tensor_at < 0:
        return 1
    points = record_points(payload[shape.tensor_at :], dialect.layout)
    if points is None or not _range_fits(payload, shape, dialect, size):
        return 0
    return points or 1


def _range_fits(payload: bytes, shape: Shape, dialect: Dialect, size: int) -> bool:
    """Whether the bytes that a request carries or asks for lie in its tensor."""
    if shape.data_at >= 0:
        return data_fits(payload, shape, size, dialect.layout)
    if shape.size_at < 0 or len(payload) < shape.size_at + 8:
        return True
    fields = dialect.layout.shape_struct.unpack_from(payload, shape.tensor_at)
    if fields[1] not in TYPE_BY_ID:
        return True
    total = nbytes(fields[1], fields[3:7], fields[7:11])
    offset = int.from_bytes(payload[shape.offset_at : shape.offset_at + 8], "little")
    moved = int.from_bytes(payload[shape.size_at : shape.size_at + 8], "little")
    return not total or 0 < moved <= total - offset or max(fields[7:11]) >= 1 << 31

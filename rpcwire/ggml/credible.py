"""What can be a request header, and what shows that it is one.

Used where a stream has to be entered in its middle: after a hole that hid a header, or when the
capture began late. A chain of headers each of which leads to the next is convincing; so is a
single one with a tensor record whose strides, type and size all agree.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rpcwire.ggml.graph import counts
from rpcwire.ggml.tape import LoadedSpan, Tape
from rpcwire.ggml.tensor import TYPE_BY_ID, TYPE_LIMIT, TensorLayout, nbytes
from rpcwire.ggml.versions import DIALECTS, REQUEST_HEADER, Dialect, Shape

#: A request may not claim more than this many bytes (16 TiB) in a stream that is in step,
MOST_BYTES = 1 << 44
#: nor more than this where a header is searched for (1 TiB: the top three bytes are 0).
MOST_SEARCHED = 1 << 40
#: A graph's records plus ids; some 200,000 tensors.
MOST_GRAPH = 64 << 20
#: Commands that no table knows are followed when they are small.
MOST_UNKNOWN = 1 << 32
MOST_ODD = 1 << 16
ID_LIMIT = 64
OP_LIMIT = 256
#: How far ahead a chain is followed before it is judged by what was seen.
LOOK_AHEAD = 1 << 20
#: Points that convince; see `judge`.
CONVINCED = 3


class Verdict(Enum):
    """Outcome of `judge`."""

    YES = 1
    NO = 2
    WAIT = 3


def size_limits(dialects: tuple[Dialect, ...]) -> tuple[list[int], list[int]]:
    """The least and most payload bytes of each command id while a stream is in step.

    Commands of fixed size may be larger than the table says (forks add fields), unknown ids are
    followed by their size; ids from ID_LIMIT on are never credible (least > most).
    """
    least = [0] * ID_LIMIT + [1] * (256 - ID_LIMIT)
    most = [MOST_UNKNOWN] * ID_LIMIT + [0] * (256 - ID_LIMIT)
    for command in {i for d in dialects for i in d.shapes}:
        shapes = [d.shapes[command] for d in dialects if command in d.shapes]
        least[command] = min(s.least for s in shapes)
        most[command] = max(
            MOST_GRAPH if s.is_graph else MOST_BYTES if s.fixed < 0 else MOST_ODD for s in shapes
        )
    return least, most


LEAST, MOST = size_limits(tuple(DIALECTS.values()))


def fitting(shape: Shape, size: int) -> bool:
    """Whether a request of this shape can have a payload of `size` bytes."""
    if shape.fixed >= 0:
        return size == shape.fixed
    return shape.least <= size <= (MOST_GRAPH if shape.is_graph else MOST_SEARCHED)


def record_points(raw: bytes, layout: TensorLayout) -> int | None:
    """How convincing a tensor record's first bytes are.

    Returns:
        None: it cannot be one. 0: too little of it was captured. 2: every field is plausible.
        3: besides, type, shape and strides agree as in a contiguous tensor.
    """
    unpack = layout.shape_struct
    if len(raw) < unpack.size:
        return 0
    tensor_id, type_id, _, *rest = unpack.unpack_from(raw)
    ne, nb, op = tuple(rest[:4]), tuple(rest[4:8]), rest[8]
    if not tensor_id or type_id >= TYPE_LIMIT or op >= OP_LIMIT or 0 in ne:
        return None
    known = TYPE_BY_ID.get(type_id)
    if known is None:
        return 2
    if nb[0] < known.size or ne[0] % known.block:
        return None
    row = known.size * (ne[0] // known.block)
    tight = nb[0] == known.size and nb[1] == row & 0xFFFFFFFF and row
    return 3 if tight and nb[2] == (nb[1] * ne[1]) & 0xFFFFFFFF else 2


def data_fits(raw: bytes, shape: Shape, size: int, layout: TensorLayout) -> bool:
    """Whether the data of a SET_TENSOR of `size` payload bytes lies within its tensor."""
    at = shape.offset_at
    if len(raw) < at + 8:
        return True
    type_id = layout.shape_struct.unpack_from(raw)
    total = nbytes(type_id[1], type_id[3:7], type_id[7:11])
    if not total:
        return True
    offset = int.from_bytes(raw[at : at + 8], "little")
    moved = size - shape.data_at
    known = TYPE_BY_ID[type_id[1]]
    # Strides of more than 32 bits are cut on the wire, and a worker may pad rows.
    return (offset + moved <= total or max(type_id[7:11]) >= 1 << 31) and moved % known.size == 0


def fits(shape: Shape, dialect: Dialect, size: int, payload: bytes) -> bool:
    """Whether a request fits a dialect, by its size and by what is known of its payload."""
    if not fitting(shape, size):
        return False
    if shape.is_graph:
        if len(payload) < shape.device_at + 8:
            return True
        return counts(payload, size, dialect.layout, shape.device_at == 0) is not None
    if shape.data_at >= 0 and shape.tensor_at == 0:
        return data_fits(payload, shape, size, dialect.layout)
    return True


def record_plausible(shape: Shape, dialect: Dialect, size: int, payload: bytes) -> bool:
    """Whether the first tensor record of a request, if it has one, reads well in a dialect."""
    at = shape.tensor_at
    if shape.is_graph:
        whole = counts(payload, size, dialect.layout, shape.device_at == 0)
        at = shape.least + 8 * whole[0] if whole and whole[1] else -1
    return at < 0 or record_points(payload[at : at + 128], dialect.layout) is not None


def frame_points(
    command: int, size: int, payload: bytes, dialects: tuple[Dialect, ...]
) -> int | None:
    """The best that any dialect makes of one request; None if none can make anything of it."""
    best: int | None = None
    for dialect in dialects:
        shape = dialect.shapes.get(command)
        if shape is None or not fitting(shape, size):
            continue
        points: int | None = 1
        if shape.is_graph:
            whole = counts(payload, size, dialect.layout, shape.device_at == 0)
            points = CONVINCED if whole and whole[0] else None
        elif shape.tensor_at >= 0:
            raw = payload[shape.tensor_at :]
            points = record_points(raw, dialect.layout)
            if points and shape.data_at >= 0 and not data_fits(raw, shape, size, dialect.layout):
                points = None
        if points is not None and (best is None or points > best):
            best = points
    return best


#: Enough of a payload to read a record's shape and a SET_TENSOR's offset.
_PEEK = 380


def judge(
    tape: Tape, offset: int, dialects: tuple[Dialect, ...], final: bool
) -> tuple[Verdict, int]:
    """Whether a request header is credible at a stream offset.

    Args:
        tape: the direction's spans.
        offset: where a header may begin.
        dialects: those that come into question.
        final: True when nothing more will come.

    Returns:
        The verdict, and the offset just after the last byte that was looked at.
    """
    at = seen = offset
    points = 0
    while True:
        header, more = tape.read(at, REQUEST_HEADER)
        seen = max(seen, at + len(header))
        if len(header) < REQUEST_HEADER:
            if more and not final:
                return Verdict.WAIT, seen
            break
        command = header[0]
        size = int.from_bytes(header[1:], "little")
        if size >= MOST_SEARCHED:
            return Verdict.NO, seen
        want = min(size, _PEEK)
        payload, more = tape.read(at + REQUEST_HEADER, want)
        seen = max(seen, at + REQUEST_HEADER + len(payload))
        if len(payload) < want and more and not final:
            return Verdict.WAIT, seen
        gained = frame_points(command, size, payload, dialects)
        if gained is None:
            return Verdict.NO, seen
        points += gained
        if points >= CONVINCED:
            return Verdict.YES, seen
        at += REQUEST_HEADER + size
        if at - offset > LOOK_AHEAD:
            break
    return (Verdict.YES if points >= CONVINCED - 1 else Verdict.NO), seen


_SEPARATOR = b"\xff" * 16


def _fixed_sizes() -> NDArray[np.bool_]:
    """bool[ID_LIMIT, 4096]: payload sizes that some dialect has for a command; True where any."""
    table = np.zeros((ID_LIMIT, 4096), np.bool_)
    for dialect in DIALECTS.values():
        for command, shape in dialect.shapes.items():
            if shape.fixed >= 0:
                table[command, shape.fixed] = True
            else:
                table[command, shape.least :] = True
    return table


_SIZES = _fixed_sizes()
_KNOWN = frozenset(i for d in DIALECTS.values() for i in d.shapes)
_VARIABLE = np.array(
    [any(i in d.shapes and d.shapes[i].fixed < 0 for d in DIALECTS.values()) for i in range(64)]
)


def header_offsets(span: LoadedSpan, start: int, stop: int, before: bytes) -> list[int]:
    """Stream offsets at which the bytes could be a request header.

    Args:
        span: where to look.
        start: stream offset within the span; headers that end after it are found,
        stop: up to those that end here.
        before: up to 8 captured bytes that directly precede `start`.
    """
    parts: list[bytes | memoryview] = [before]
    starts = [start - len(before)]
    lengths = [len(before)]
    k = span.piece(start)
    begin = start
    while begin < stop:
        end = min(span.ends[k], stop)
        skip = begin - span.piece_start(k)
        have = max(0, min(span.have[k], skip + end - begin) - skip)
        at = span.source[k] + skip
        parts.append(span.data[at : at + have])
        starts.append(begin)
        gap = have < end - begin
        if gap:
            parts.append(_SEPARATOR)
        lengths.append(have + len(_SEPARATOR) * gap)
        begin = end
        k += 1
    joined = np.frombuffer(b"".join(parts), np.uint8)
    if len(joined) < REQUEST_HEADER:
        return []
    n = len(joined) - REQUEST_HEADER + 1
    # Zeros are common and no header begins with two: command 0 has a payload of 8 or 12 bytes.
    some = (joined[:n] | joined[1 : 1 + n]) != 0
    hits = np.flatnonzero(some & (joined[8 : 8 + n] == 0))
    hits = hits[(joined[hits] < ID_LIMIT) & (joined[hits + 6] == 0) & (joined[hits + 7] == 0)]
    if not len(hits):
        return []
    size = np.zeros(len(hits), np.int64)
    for i in range(5):
        size |= joined[hits + 1 + i].astype(np.int64) << (8 * i)
    command = joined[hits]
    small = size < _SIZES.shape[1]
    good = np.where(small, _SIZES[command, np.where(small, size, 0)], _VARIABLE[command])
    hits = hits[good]
    run = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    at_run = np.searchsorted(run, hits, "right") - 1
    offsets: list[int] = (np.asarray(starts)[at_run] + hits - run[at_run]).tolist()
    return offsets


def piece_offsets(span: LoadedSpan, start: int) -> list[int]:
    """Offsets of the pieces that begin at `start` or later and could begin with a header."""
    found = []
    data = span.data
    for k in range(span.piece(start), len(span.have)):
        offset = span.piece_start(k)
        if not span.have[k] or offset < start or data[span.source[k]] not in _KNOWN:
            continue
        header = span.window(offset, REQUEST_HEADER, k)[:REQUEST_HEADER]
        size = int.from_bytes(header[1:], "little")
        if len(header) < REQUEST_HEADER:
            if offset + len(header) == span.end:
                found.append(offset)  # the rest of it may begin the next span
        elif size < _SIZES.shape[1]:
            if _SIZES[header[0], size]:
                found.append(offset)
        elif size < MOST_SEARCHED and _VARIABLE[header[0]]:
            found.append(offset)
    return found

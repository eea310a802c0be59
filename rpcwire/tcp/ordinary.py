"""Which segments of a run are ordinary, so that they can be taken all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import ACK, FIN, RST, SYN
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rows import Rows

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_REACH = 1 << 30
# A hole that is filled so soon is not worth the preparation.
_SOON = 16


@dataclass(slots=True)
class Top:
    """Where a stream was proved to end, relative to `Half.next` before the run.

    Attributes:
        before, after: int64[n], before and after each segment.
        raised: bool[n], where something was proved that had not come in order.
        holes: whether there is a hole at any time.
    """

    before: Ints
    after: Ints
    raised: Mask
    holes: bool


@dataclass(slots=True)
class Run:
    """Segments, those of the first `taken` of which are ordinary.

    Offsets are relative to `Half.next` before the run, `ack` to that of the other side.

    Attributes:
        rows, first: where they are.
        packets: packets of the connection before them.
        taken: how many can be taken at once.
        slow: how many after them had better be taken one by one.
        one: whether side 1 sent it.
        loaded: whether it has payload.
        fresh: whether it begins where its stream ends, or beyond.
        start, end, ack: int64[n].
        tops: of either side.
    """

    rows: Rows
    first: int
    packets: int
    taken: int
    slow: int
    one: Mask
    loaded: Mask
    fresh: Mask
    start: Ints
    end: Ints
    ack: Ints
    tops: tuple[Top, Top]


def ordinary(conn: Connection, rows: Rows, i: int, j: int, limits: Limits) -> Run:
    """Look at segments from `i` up to `j`; arguments as those of `fast.advance`."""
    side = rows.end[i:j] ^ conn.flip if conn.flip else rows.end[i:j]
    one = side.astype(np.bool_)
    place = [np.uint32((half.base + half.next) & 0xFFFFFFFF) for half in conn.sides]  # type: ignore[operator]
    own = np.where(one, place[1], place[0])
    other = np.where(one, place[0], place[1])
    start = (rows.seq[i:j] - own).view(np.int32).astype(np.int64)
    ack = (rows.ack[i:j] - other).view(np.int32).astype(np.int64)
    end = start + rows.length[i:j]
    loaded = rows.length[i:j] > 0
    first, second = conn.sides
    tops = (
        _top(first, np.where(one, ack, end), start, loaded & ~one),
        _top(second, np.where(one, end, ack), start, loaded & one),
    )
    at = np.where(one, tops[1].before, tops[0].before)
    heard = np.where(one, tops[0].before, tops[1].before)
    fresh = start >= at
    # A segment below the stream must begin within reach, and end below every hole.
    ok = fresh | (end <= np.where(one, _floor(tops[1]), _floor(tops[0]))) | ~loaded
    ok &= (np.abs(start - at) <= limits.near) & (ack - heard <= limits.near)
    ok &= rows.flags[i:j] & (SYN | FIN | RST | ACK) == ACK
    holes = tops[0].holes or tops[1].holes
    if holes:
        ok &= np.maximum(at, heard) < _REACH
        ok &= _steady(rows.time_ns[i:j], limits)
    if conn.awaits(0):
        ok &= ~one
    if conn.awaits(1):
        ok &= one
    taken, slow = len(ok) if ok.all() else int(ok.argmin()), 1
    if holes and taken < len(ok):
        hole = min(_first_hole(top) for top in tops)
        if 0 <= taken - hole < _SOON:
            taken, slow = hole, taken + 1 - hole
    return Run(rows, i, conn.packets, taken, slow, one, loaded, fresh, start, end, ack, tops)


def _first_hole(top: Top) -> int:
    """The segment that opens the first hole; far off without holes."""
    if not top.holes:
        return len(top.raised)
    return 0 if top.before[0] else int(top.raised.argmax())


def _top(half: Half, reach: Ints, start: Ints, loaded: Mask) -> Top:
    """Follow where a stream is proved to end.

    Args:
        half: the stream.
        reach: int64[n], up to where each segment proves it.
        start: int64[n], where each segment begins.
        loaded: which segments bring payload of this stream.
    """
    gap = half.top - half.next
    after = np.maximum.accumulate(np.maximum(reach, gap))
    before = np.empty_like(after)
    before[0] = gap
    before[1:] = after[:-1]
    raised = after > before
    raised &= ~(loaded & (start == before))
    return Top(before, after, raised, gap > 0 or bool(raised.any()))


def _floor(top: Top) -> Ints:
    """Below which offset there was no hole at each segment; a lower bound of `Half.next`."""
    if not top.holes:
        return top.before
    hole = int(top.before[_first_hole(top)]) if not top.before[0] else 0
    return np.minimum(top.before, hole)


def _steady(time_ns: Ints, limits: Limits) -> Mask:
    """Where the clock has not gone back so far that the order of deadlines is in doubt."""
    back: Ints = np.maximum.accumulate(time_ns) - time_ns
    return back < min(limits.acked_ns, limits.sent_ns)

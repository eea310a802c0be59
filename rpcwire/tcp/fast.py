"""The fast path: a run of segments in which nothing surprising happens, without a Python loop.

In such a run every segment continues its stream or lies below where it stands, every
acknowledgement covers only what was captured, and no flag but ACK and PSH is set. The result is
exactly what the slow path makes of the same segments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.segments import ACK, FIN, RST, SYN
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.half import UNACKED, Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rows import Rows
from rpcwire.tcp.span import Span

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def advance(conn: Connection, rows: Rows, i: int, j: int, limits: Limits) -> int:
    """Take segments from `i` on, at most up to `j`, while they are ordinary; gives how many.

    `conn.clean` must hold; the payload of the range must stay below 1 GiB.
    """
    side = rows.end[i:j] ^ conn.flip if conn.flip else rows.end[i:j]
    one = side.astype(np.bool_)
    length = rows.length[i:j]
    place = [np.uint32((half.base + half.next) & 0xFFFFFFFF) for half in conn.sides]  # type: ignore[operator]
    own = np.where(one, place[1], place[0])
    other = np.where(one, place[0], place[1])
    start = (rows.seq[i:j] - own).view(np.int32).astype(np.int64)
    ack = (rows.ack[i:j] - other).view(np.int32).astype(np.int64)
    end = start + length
    before = [_before(end, ~one), _before(end, one)]
    at = np.where(one, before[1], before[0])
    fresh = start == at
    below = (at - end).view(np.uint64) <= limits.near
    # A segment below the stream must also begin within reach, as on the slow path.
    below &= at - start <= limits.near
    back = np.where(one, before[0], before[1]) - ack
    ok = (fresh | below) & (back >= 0) & (rows.flags[i:j] & (SYN | FIN | RST | ACK) == ACK)
    n = len(ok) if ok.all() else int(ok.argmin())
    if not n:
        return 0
    cut = slice(i, i + n)
    loaded = length[:n] > 0
    fresh = fresh[:n]
    times = rows.time_ns[cut]
    for s, half in enumerate(conn.sides):
        mine = one[:n] if s else ~one[:n]
        sent = np.flatnonzero(mine & loaded)
        half.packets += int(np.count_nonzero(mine))
        base = half.next
        new = sent
        if len(sent):
            half.segments += len(sent)
            half.payload_bytes += int(length[sent].sum())
            isnew = fresh[sent]
            if not isnew.all():
                new = sent[isnew]
                half.repeats += len(sent) - len(new)
                half.repeated += int(length[sent[~isnew]].sum())
        if len(new):
            _span(half, rows, new + i, base + end[new])
        acks = np.flatnonzero(~mine)
        if len(acks) or len(new):
            _round_trips(half, times[new], base + end[new], times[acks], base + ack[acks])
    conn.packets += n
    conn.last_ns = int(times[-1])
    conn.last_order = int(rows.order[i + n - 1])
    return n


def _before(end: Ints, mine: Mask) -> Ints:
    """Where a stream stands before each segment, relative to where it stood at first."""
    after = np.maximum.accumulate(np.maximum(np.where(mine, end, 0), 0))
    result = np.empty_like(after)
    result[0] = 0
    result[1:] = after[:-1]
    return result


def _span(half: Half, rows: Rows, index: Ints, ends: Ints) -> None:
    have = rows.captured[index]
    half.truncated += int(rows.length[index].sum() - have.sum())
    half.advance(
        Span(
            half.next, int(ends[-1]), ends, rows.source[index], have,
            np.zeros(len(index), np.bool_), rows.time_ns[index], rows.number[index],
            rows.file[index], rows.data, rows.order[index],
        )
    )  # fmt: skip


def _round_trips(half: Half, sent: Ints, ends: Ints, heard: Ints, offsets: Ints) -> None:
    """Pair acknowledgements that advance with the last segment each covers.

    Args:
        half: the direction that is acknowledged.
        sent: int64[n], capture times of its segments.
        ends: int64[n], their end offsets.
        heard: int64[m], capture times of the acknowledgements.
        offsets: int64[m], what they acknowledge.
    """
    reached = np.maximum.accumulate(np.concatenate([[half.acked], offsets]))
    earlier, reached = reached[:-1], reached[1:]
    moved = np.flatnonzero(reached > earlier)
    if len(half.sent_ends):
        ends = np.concatenate([np.array(half.sent_ends, np.int64), ends])
        sent = np.concatenate([np.array(half.sent_times, np.int64), sent])
    if len(moved) and len(ends):
        which = np.searchsorted(ends, reached[moved], "right") - 1
        good = (which >= 0) & (ends[which] > earlier[moved])
        half.rtt.extend(heard[moved[good]] - sent[which[good]])
    if len(reached):
        half.acked = int(reached[-1])
    left = max(int(np.searchsorted(ends, half.acked, "right")), len(ends) - UNACKED)
    half.sent_ends = ends[left:].tolist()
    half.sent_times = sent[left:].tolist()

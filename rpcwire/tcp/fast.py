"""The fast path: a run of segments in which nothing surprising happens, without a Python loop.

In such a run no flag but ACK and PSH is set, and every segment with payload begins where its
stream ends or beyond, or lies below all holes. Holes may be open before and open on the way
(see holes.py); what fills one ends the run. The result is exactly what the slow path makes of the
same segments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.arrivals import Arrivals, Proofs
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.half import UNACKED, Half
from rpcwire.tcp.holes import Timeline
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.ordinary import Run, ordinary
from rpcwire.tcp.rows import Rows
from rpcwire.tcp.span import Span
from rpcwire.tcp.trail import Trail

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def advance(conn: Connection, rows: Rows, i: int, j: int, limits: Limits) -> tuple[int, int]:
    """Take segments from `i` on, at most up to `j`, while they are ordinary.

    `conn.ready` must hold; the payload of the range must stay below 1 GiB.

    Returns:
        How many were taken, and how many after them had better be taken one by one.
    """
    run = ordinary(conn, rows, i, j, limits)
    if run.taken:
        for side in (0, 1):
            _take(conn.sides[side], side, run, limits)
        conn.packets += run.taken
        conn.last_ns = int(rows.time_ns[i + run.taken - 1])
        conn.last_order = int(rows.order[i + run.taken - 1])
    return run.taken, run.slow


def _take(half: Half, side: int, run: Run, limits: Limits) -> None:
    """Bring one direction up to date."""
    rows, i, top, n = run.rows, run.first, run.tops[side], run.taken
    mine = run.one[:n] if side else ~run.one[:n]
    new = _count(half, run, mine)
    ends = half.next + run.end[new]
    acks = np.flatnonzero(~mine)
    acks, offsets, earlier = _advancing(half, acks, half.next + run.ack[acks])
    if half.top == half.next and not (top.holes and top.raised[:n].any()):
        if len(new):
            _span(half, rows, new + i, ends)
    else:
        raised = np.flatnonzero(top.raised[:n])
        reached = half.next + top.after[:n]
        timeline = Timeline(half, limits, Arrivals(
            rows=rows, first=i, packets=run.packets, top=reached,
            index=new, starts=half.next + run.start[new], ends=ends,
            proofs=_proofs(half.proofs, run, raised, reached[raised]),
            acks=_proofs(half.acks, run, acks, offsets),
        ))  # fmt: skip
        timeline.run()
        sampled = timeline.sampled
        new, ends = new[sampled], ends[sampled]
    if len(acks) or len(new):
        _round_trips(half, (new, ends), (acks, offsets, earlier), rows.time_ns[i : i + n])


def _count(half: Half, run: Run, mine: Mask) -> Ints:
    """Count the packets of a direction; gives the index of its new payload."""
    sent = np.flatnonzero(mine & run.loaded[: run.taken])
    half.packets += int(np.count_nonzero(mine))
    if not len(sent):
        return sent
    length = run.rows.length[sent + run.first]
    half.segments += len(sent)
    half.payload_bytes += int(length.sum())
    fresh = run.fresh[sent]
    if fresh.all():
        return sent
    half.repeats += int(np.count_nonzero(~fresh))
    half.repeated += int(length[~fresh].sum())
    return sent[fresh]


def _span(half: Half, rows: Rows, index: Ints, ends: Ints) -> None:
    have = rows.captured[index]
    half.truncated += int(rows.length[index].sum() - have.sum())
    half.advance(
        Span(
            half.next, int(ends[-1]), ends, rows.source[index], have,
            np.zeros(len(index), np.bool_), rows.time_ns[index], rows.number[index],
            rows.file[index], rows.data, np.maximum(rows.order[index], half.out.known),
        )
    )  # fmt: skip
    half.top = half.next


def _advancing(half: Half, acks: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """The acknowledgements that go beyond all before: their index, offset, and what was before."""
    reached = np.maximum.accumulate(np.concatenate([[half.acked], offsets]))
    moved = np.flatnonzero(reached[1:] > reached[:-1])
    half.acked = int(reached[-1])
    return acks[moved], reached[1:][moved], reached[:-1][moved]


def _proofs(trail: Trail, run: Run, index: Ints, offset: Ints) -> Proofs:
    """Earlier proofs and those of the run.

    Args:
        trail: the earlier ones.
        run: the segments.
        index: int64[k], those that prove something.
        offset: int64[k], what each proves.
    """
    rows, at = run.rows, index + run.first
    earlier = trail.table()
    fresh = np.stack(
        [offset, index + run.packets + 1, rows.time_ns[at], rows.number[at], rows.file[at]], 1
    )
    return Proofs(
        np.concatenate([np.full(len(earlier), -1), index]), np.concatenate([earlier, fresh])
    )


def _round_trips(
    half: Half, sent: tuple[Ints, Ints], acks: tuple[Ints, Ints, Ints], times: Ints
) -> None:
    """Pair acknowledgements that advance with the last segment each covers.

    Args:
        half: the direction that is acknowledged.
        sent: int64[n], index and end offset of its segments.
        acks: int64[m], index of the acknowledgements, what they acknowledge, and what was
            acknowledged before.
        times: of the segments that the indices are of.
    """
    index, ends = sent
    at, reached, earlier = acks
    waiting = len(half.sent_ends)
    if not len(at):
        half.sent_ends += ends.tolist()
        half.sent_times += times[index].tolist()
        del half.sent_ends[:-UNACKED], half.sent_times[:-UNACKED]
        return
    clock = times[index]
    if waiting:
        ends = np.concatenate([np.array(half.sent_ends, np.int64), ends])
        clock = np.concatenate([np.array(half.sent_times, np.int64), clock])
    if len(ends):
        which = np.searchsorted(ends, reached, "right") - 1
        good = which >= np.maximum(waiting + np.searchsorted(index, at) - UNACKED, 0)
        good &= ends[which] > earlier
        half.rtt.extend(times[at[good]] - clock[which[good]])
    left = max(int(np.searchsorted(ends, half.acked, "right")), len(ends) - UNACKED)
    half.sent_ends = ends[left:].tolist()
    half.sent_times = clock[left:].tolist()

"""Streams with holes on the fast path: when each hole is given up, and what that sets free.

The rules are those of `Half.expire`, which looks after every packet. Here time runs from event
to event: a hole opens, its patience ends, what is held behind it becomes deliverable. Between two
events nothing happens but the arrival of payload, which is dealt with as arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpcwire.tcp.arrivals import Arrivals
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.parts import Parts
from rpcwire.tcp.span import Span

Ints = NDArray[np.int64]

# Acknowledgements looked at together: a run of which only the first counts must not cost much.
_TOGETHER = 512
_NEVER = 1 << 62


class Timeline:
    """One direction through a run of segments.

    Args:
        half: its state, which `run` brings up to date.
        limits: patience and memory.
        new: what the run brings.

    Attributes:
        sampled: int64[m], which of the arrivals found no hole before them.
    """

    def __init__(self, half: Half, limits: Limits, new: Arrivals) -> None:
        self._half, self._limits, self._new = half, limits, new
        self._proofs, self._acks, self._top = new.proofs, new.acks, new.top
        cut = slice(new.first, new.first + len(new.top))
        self._order = new.rows.order[cut]
        clock = np.maximum.accumulate(new.rows.time_ns[cut])
        self._ack_due = new.acks.due(clock, new.packets, limits.acked_packets, limits.acked_ns)
        self._due = new.proofs.due(clock, new.packets, limits.sent_packets, limits.sent_ns)
        # So many proofs later, the first of them has to go.
        more = new.proofs.at[limits.held_pieces :]
        self._due[: len(more)] = np.minimum(self._due[: len(more)], np.maximum(more, 0))
        self._heads = np.flatnonzero(new.starts != np.concatenate([[-1], new.ends])[:-1])
        have = new.rows.captured[new.index + new.first]
        self._have = np.concatenate([[0], np.cumsum(have)])
        self._out = 0
        self._parts = Parts(new, half.next)
        self._sampled: list[tuple[int, int]] = []

    def run(self) -> None:
        """Hand on what becomes deliverable in the run, keep the rest."""
        half, at = self._half, -1
        while at < len(self._top):
            at = self._until_hole(at) if half.next == self._level(at) else self._until_given_up(at)
        self._flush()
        self._keep()

    @property
    def sampled(self) -> Ints:
        """int64[m], which of the arrivals found no hole before them."""
        parts = [np.arange(begin, stop) for begin, stop in self._sampled]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _level(self, at: int) -> int:
        """How far the stream is proved after segment `at` of the run."""
        return self._half.top if at < 0 else int(self._top[at])

    def _until_hole(self, at: int) -> int:
        """From a stream without holes to the segment that shows the next one; gives that."""
        index = int(self._proofs.at.searchsorted(at, "right"))
        end = int(self._proofs.at[index]) if index < len(self._proofs.at) else len(self._top)
        begin, stop = self._out, int(self._new.index.searchsorted(end))
        if stop > begin:
            self._parts.arrived(begin, stop)
            self._sampled.append((begin, stop))
            self._out = stop
            self._half.next = int(self._new.ends[stop - 1])
        return end

    def _until_given_up(self, at: int) -> int:
        """From a hole to the segment after which (a part of) it is declared lost; gives that."""
        half, acks, proofs = self._half, self._acks, self._proofs
        last = len(self._top)
        now = max(at, 0)
        behind, arrived = self._behind()
        ack, proof = acks.beyond(half.next), proofs.beyond(half.next)
        full = max(self._full(), now)
        acked = max(int(self._ack_due[ack]), now) if ack < len(self._ack_due) else last
        together = self._acked_at_once(ack, now, behind, full)
        if together >= 0:
            return together
        due = min(acked, full, max(int(self._due[proof]), now))
        if due >= last:
            return last
        upto = behind if arrived <= due else self._sure(due)
        if upto == half.next:
            # Maybe a FIN; more of the stream tells.
            index = int(proofs.at.searchsorted(due, "right"))
            more = int(proofs.at[index]) if index < len(proofs.at) else last
            return min(more, arrived)
        if acked <= due:
            upto = min(upto, int(acks.table[ack, 0]))
        self._lose(np.array([proof]), np.array([due]), np.array([upto]))
        return due

    def _behind(self) -> tuple[int, int]:
        """Where the hole ends at payload, and the segment that brings it; far off for never."""
        if self._half.held.starts:
            return self._half.held.starts[0], -1
        if self._out < len(self._new.index):
            return int(self._new.starts[self._out]), int(self._new.index[self._out])
        return _NEVER, len(self._top)

    def _full(self) -> int:
        """After which segment too much is held."""
        held, limits, index = self._half.held, self._limits, self._new.index
        pieces = limits.held_pieces - held.pieces + self._out
        size = limits.held_bytes - held.bytes + int(self._have[self._out])
        most = min(pieces, int(self._have.searchsorted(size, "right")) - 1)
        if most < self._out:
            return 0
        return int(index[most]) if most < len(index) else len(self._top)

    def _sure(self, at: int) -> int:
        """See `Half._sure`, after segment `at` of the run."""
        top = int(self._top[at])
        index = int(self._proofs.at.searchsorted(at, "right")) - 2
        before = int(self._proofs.table[index, 0]) if index >= 0 else 0
        return top - (top == max(before, self._half.next) + 1)

    def _acked_at_once(self, first: int, now: int, behind: int, full: int) -> int:
        """Declare lost what several acknowledgements in a row prove; after which segment, or -1."""
        acks, proofs, half, last = self._acks, self._proofs, self._half, len(self._top)
        stop = min(int(acks.table[:, 0].searchsorted(behind, "right")), first + _TOGETHER)
        if stop - first < 2:
            return -1
        due = np.maximum(np.maximum.accumulate(self._ack_due[first:stop]), now)
        upto = acks.table[first:stop, 0]
        since = np.concatenate([[half.next], upto[:-1]])
        proof = proofs.table[:, 0].searchsorted(since, "right")
        good = due <= min(full, last - 1)
        # Beyond is more of the stream, so that none of it may be a FIN.
        good &= (upto < self._top[np.minimum(due, last - 1)]) & (due <= self._due[proof])
        count = len(good) if good.all() else int(good.argmin())
        if count < 2:
            return -1
        upto, proof, due = upto[:count], proof[:count], due[:count]
        self._lose(proof, due, upto)
        return int(due[-1])

    def _lose(self, proof: Ints, at: Ints, upto: Ints) -> None:
        """Declare the stream lost up to an offset, and then the next.

        Args:
            proof: int64[k], the first proof beyond what went before.
            at: int64[k], the segment of the run after which.
            upto: int64[k], the offsets.
        """
        half = self._half
        count = self._proofs.table[:, 0].searchsorted(upto) - proof + 1
        self._parts.lost(proof, count, self._order[at], upto)
        half.missing += int(upto[-1]) - half.next
        half.next = int(upto[-1])
        self._release(int(at[-1]))

    def _release(self, at: int) -> None:
        """Hand on what is held at `Half.next`, after segment `at`."""
        half, new, out = self._half, self._new, self._out
        known = int(self._order[at])
        if half.held.starts:
            if half.held.starts[0] > half.next:
                return
            self._flush()
            half.release(known)
            self._parts.begin = half.next
            if half.held.starts:
                return
        if out == len(new.index) or new.starts[out] != half.next or new.index[out] > at:
            return
        head = int(self._heads.searchsorted(out, "right"))
        stop = int(self._heads[head]) if head < len(self._heads) else len(new.index)
        stop = min(stop, int(new.index.searchsorted(at, "right")))
        self._parts.released(out, stop, known)
        self._out = stop
        half.next = int(new.ends[stop - 1])

    def _flush(self) -> None:
        """Hand on what became deliverable."""
        span = self._parts.span()
        if span is None:
            return
        half = self._half
        assert span.known is not None
        span.known = np.maximum(span.known, half.out.known)
        size = np.diff(span.piece_end, prepend=span.start)
        half.truncated += int(np.sum(size - span.have, where=~span.lost))
        half.advance(span)

    def _keep(self) -> None:
        """Leave in `Half` what still waits."""
        half, new, rows = self._half, self._new, self._new.rows
        half.top = int(self._top[-1])
        if half.next == half.top:
            half.proofs.clear()
            half.acks.clear()
            return
        begin = self._out
        while begin < len(new.index):
            head = int(self._heads.searchsorted(begin, "right"))
            stop = int(self._heads[head]) if head < len(self._heads) else len(new.index)
            index, ends = new.index[begin:stop] + new.first, new.ends[begin:stop]
            half.held.append(
                Span(
                    int(new.starts[begin]), int(ends[-1]), ends, rows.source[index],
                    rows.captured[index], np.zeros(len(index), np.bool_), rows.time_ns[index],
                    rows.number[index], rows.file[index], rows.data,
                )
            )  # fmt: skip
            begin = stop
        half.proofs.replace(self._proofs.table[self._proofs.beyond(half.next) :])
        acks = self._acks.beyond(half.next)
        # What was acknowledged between two holes makes no difference.
        upto = self._acks.table[acks:, 0]
        since = np.concatenate([[half.next], upto[:-1]])
        starts, ends = np.array(half.held.starts or [_NEVER]), np.array(half.held.ends or [0])
        cover = starts.searchsorted(since, "right") - 1
        idle = (cover >= 0) & (upto <= ends[cover])
        half.acks.replace(self._acks.table[acks:][~idle])

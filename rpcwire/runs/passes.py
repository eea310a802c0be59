"""Passes: all steps that compute the same ubatch, on however many devices; and their contexts.

A context is one KV cache (or recurrent state) on the client's side: target, draft model or draft
head. It is recognised by the remote buffers its graphs write to, which differ between contexts
even when they share weights and a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.steps import Step

Key = tuple[int, int]  #: connection id, remote buffer pointer
Place = tuple[int, int]  #: connection id, device
PER_TOKEN, TIMED = 1, 2  #: weights of a group
_MAX_WAITING = 64  #: passes that wait for one to prove a warm-up or not
_MAX_WARMUPS = 4
_MAX_OPEN = 4  #: llama.cpp keeps at most four pipeline copies


class Group:
    """Frames whose phase is decided together; those that come after the decision get it at once."""

    __slots__ = ("end_ns", "frames", "phase", "weight")

    def __init__(self) -> None:
        self.phase = ""
        #: of state: PER_TOKEN when moved between a request's first and last target pass, TIMED
        #: when also after its first token, so that its time is the tokens'
        self.weight = 0
        self.end_ns = 0  #: when the last byte of it passed
        self.frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Take a request into the group."""
        frame.group = self
        if self.phase:
            give_phase(frame, self.phase)
        else:
            self.frames.append(frame)

    def settle(self, phase: str) -> None:
        """Decide the phase of all frames of the group, present and future."""
        self.phase = phase
        for frame in self.frames:
            give_phase(frame, phase)
        self.frames = []


def give_phase(frame: Frame, phase: str) -> None:
    """Set the phase of a request and of its response."""
    frame.phase = phase
    if frame.response is not None:
        frame.response.phase = phase


@dataclass(slots=True, eq=False)
class Context:
    """A KV cache or recurrent state, and the graphs that write to it.

    Attributes:
        is_new: it was created in the capture. warmups: how many of its passes were warm-ups.
        answers: a final output (logits, hidden states for a draft) was read of it.
        is_head: a draft head. is_draft: found to draft for another context.
        nodes: graph nodes of its largest pass.
        places: devices that have taken part.
        passes: how many it has computed so far.
        cached: a cache of it is on a worker.
        first_use: its first pass that was no warm-up, -1 before.
    """

    id: int
    is_new: bool
    is_head: bool = False
    is_draft: bool = False
    nodes: int = 0
    places: set[Place] = field(default_factory=set)
    passes: int = 0
    answers: bool = False
    warmups: int = 0
    cached: bool = False
    first_use: int = -1
    alive: bool = True
    open: list[Pass] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pass:
    """All steps that compute the same ubatch.

    Attributes:
        id: from 0 in order of start, over all clients.
        rows: tokens in the batch, 0 unknown; sure: not only the shape of an activation.
        positions, cells: int64[rows] or None.
        output_rows: rows whose result was asked for, -1 unknown. output_ids: which, or None.
        complete: a final output has been read.
        ordinal: how many passes its context computed before. next: the one after it.
        clears: BUFFER_CLEARs right after it, while it may be a warm-up.
        logits, samples: reads of these roles.
        chose_experts: expert ids were read, so what comes back are the experts' outputs.
        state_before: state moved before it. restored_before: some of it towards the worker.
    """

    id: int
    context: Context
    start_ns: int
    group: Group = field(default_factory=Group)
    steps: list[Step] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)
    sent: set[tuple[int, int]] = field(default_factory=set)
    rows: int = 0
    sure: bool = False
    positions: np.ndarray | None = None
    cells: np.ndarray | None = None
    output_rows: int = -1
    output_ids: np.ndarray | None = None
    kv_len: int = 0
    nodes: int = 0
    complete: bool = False
    next: Pass | None = None
    ordinal: int = 0
    clears: list[Frame] = field(default_factory=list)
    logits: Frame | None = None
    samples: list[Frame] = field(default_factory=list)
    chose_experts: bool = False
    state_before: Group | None = None
    restored_before: bool = False

    @property
    def end_ns(self) -> int:
        """When the last byte of its graphs and results passed."""
        return self.group.end_ns

    @property
    def is_shift(self) -> bool:
        """Whether it only moves the cache's positions (K-shift)."""
        return any(s.is_shift for s in self.steps)

    @property
    def at_start(self) -> bool:
        """Whether its first row is position 0."""
        return self.positions is not None and len(self.positions) > 0 and self.positions[0] == 0

    def is_other_part(self, other: Pass) -> bool:
        """Whether both are parts of one pass, on different devices, that a loss kept apart."""
        return (
            self.context is not other.context
            and self.positions is not None
            and other.positions is not None
            and self.places.isdisjoint(other.places)
            and self.places.isdisjoint(other.context.places)
            and np.array_equal(self.positions, other.positions)
        )

    def may_warm_up(self, lossy: bool = False) -> bool:
        """Whether it may turn out to be a warm-up: only a new context's first passes can.

        llama-server may compute two, each with a clear after it; a second one without a clear
        is a run of llama-bench.

        Args:
            lossy: the capture may lack the context's creation, or a clear.
        """
        context = self.context
        known = self.positions is not None
        if self.ordinal != context.warmups or (known and not self.at_start):
            return False
        # Without a cache on the worker there is no clear to see; two rows are llama-server's.
        unseen = self.rows == 2 and (lossy or not context.cached)
        if not context.is_new and not unseen:
            return False
        cleared = bool(self.clears) or unseen
        return self.ordinal == 0 or (self.ordinal < _MAX_WARMUPS and cleared)

    def add(self, step: Step) -> None:
        """Take a step in."""
        place = (step.connection_id, step.device)
        self.steps.append(step)
        self.places.add(place)
        self.context.places.add(place)
        self.sent |= step.sent
        if step.in_batch and not self.sure:
            self.rows, self.sure = step.rows, True
        elif not self.sure and step.rows:  # heads may count as rows, so the least is likeliest
            self.rows = min(self.rows, step.rows) if self.rows else step.rows
        if self.positions is None:
            self.positions = step.positions
        if self.cells is None:
            self.cells = step.cells
        if step.output_rows >= 0:
            self.output_rows = step.output_rows
            self.output_ids = step.output_ids
        self.kv_len = max(self.kv_len, step.kv_len)
        self.nodes += step.view.nodes if step.view else 0
        self.context.nodes = max(self.context.nodes, self.nodes)
        self.group.end_ns = max(self.group.end_ns, step.graph.end_ns)

    def fits(self, step: Step) -> bool:
        """Whether a step can belong to the same ubatch."""
        if self.complete or self.is_shift != step.is_shift:
            return False
        if not self.sent.isdisjoint(step.sent):
            return False
        if step.positions is not None:
            if self.positions is not None and not np.array_equal(step.positions, self.positions):
                return False
            if any(
                s.positions is not None
                and s.connection_id == step.connection_id
                and s.device == step.device
                for s in self.steps
            ):
                return False
        if not step.inputs and any(s.graph.device == step.device for s in self.steps):
            return not step.graph.command.endswith("RECOMPUTE")
        return not (step.in_batch and self.sure) or step.rows == self.rows


class PassBuilder:
    """Puts the steps of one client into passes, in order of their start."""

    def __init__(self) -> None:
        self.contexts: dict[Key, Context] = {}
        self.queue: list[Pass] = []  #: passes not yet handed on, in order of start
        self.latest: Pass | None = None
        self._last: dict[Place, Context] = {}
        self._count = 0

    def place(self, step: Step, pass_id: Callable[[], int], created: bool) -> Pass:
        """Find or begin the pass of a step.

        Args:
            step: inputs and graph known; outputs not yet.
            pass_id: gives the number of a pass that begins with it.
            created: whether the step's caches are known to have been created in the capture.
        """
        keys = self._keys(step)
        context = next((c for k in keys if (c := self.contexts.get(k)) and c.alive), None)
        if context is None and step.view is None:
            context = self._last.get((step.connection_id, step.device))
        current = self.latest
        if context is None and current is not None and self._continues(current, step):
            context = current.context
        if context is None:
            context = Context(self._count, is_new=created)
            self._count += 1
        if step.view is not None:
            context.is_head |= step.view.is_head
            context.cached |= bool(step.view.kv_buffers or step.view.recurrent_buffers)
        for key in keys:
            self.contexts[key] = context
        self._last[step.connection_id, step.device] = context
        for candidate in context.open:
            if candidate.fits(step):
                candidate.add(step)
                return candidate
        return self._begin(context, step, pass_id())

    def forget(self, connection_id: int, pointer: int | None = None) -> None:
        """A buffer was freed, or (pointer None) a connection ended: its contexts end with it."""
        if pointer is None:
            for place in [k for k in self._last if k[0] == connection_id]:
                del self._last[place]
        for key in [k for k in self.contexts if k[0] == connection_id]:
            if pointer is None or key[1] == pointer:
                context = self.contexts.pop(key)
                context.alive = any(c is context for c in self.contexts.values())

    def closed(self, finishing: bool = False) -> list[Pass]:
        """Passes to which nothing can be added any more, in order of start."""
        done = []
        while self.queue:
            p = self.queue[0]
            if not finishing and not self._is_closed(p):
                break
            undecided = p.next is None and p.context.alive and p.may_warm_up(lossy=True)
            if not finishing and undecided and len(self.queue) < _MAX_WAITING:
                break
            done.append(self.queue.pop(0))
            if p in p.context.open:
                p.context.open.remove(p)
        return done

    def _is_closed(self, p: Pass) -> bool:
        if p is self.latest:
            return False
        everywhere = p.next is not None and p.places >= p.context.places
        return p.complete or everywhere or p not in p.context.open

    @staticmethod
    def _keys(step: Step) -> list[Key]:
        view = step.view
        if view is None:
            return [(step.connection_id, -1 - step.device)]
        pointers = sorted(view.kv_buffers | view.recurrent_buffers) + sorted(view.compute_buffers)
        return [(step.connection_id, p) for p in pointers]

    @staticmethod
    def _continues(current: Pass, step: Step) -> bool:
        """Whether a device not seen in the context before goes on with the current pass."""
        if (step.connection_id, step.device) in current.context.places:
            return False
        if step.view is not None and step.view.is_head:
            return False
        return current.fits(step)

    def _begin(self, context: Context, step: Step, pass_id: int) -> Pass:
        p = Pass(pass_id, context, step.start_ns)
        p.ordinal = context.passes
        context.passes += 1
        for earlier in reversed(self.queue):
            if earlier.context is context and earlier.next is None:
                earlier.next = p
                break
        context.open.append(p)
        if len(context.open) > _MAX_OPEN:
            context.open.pop(0)
        p.add(step)
        self.queue.append(p)
        self.latest = p
        return p

"""Which graphs were sent in full although the device had computed the same one before."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from rpcwire.ggml.place import place as where
from rpcwire.runs.words import GENERATION

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step

#: Graphs remembered per device.
_KNOWN = 24
#: Devices followed at a time; a run has a handful.
_MOST_PLACES = 1024
_EXAMPLES = 5
_MOST_LABELS = 64
#: Bytes of a GRAPH_RECOMPUTE, and of a tensor record.
REUSED = 13
_RECORD = 296


class Graphs:
    """Follows the graphs of every device, in generation only.

    Attributes:
        passes: passes of generation. full: bytes of all graphs sent in full in them.
        possible: passes with a graph that its device had computed before. resent: those of them
            in which such a graph was sent in full; resent_bytes: what a reuse would have saved.
        numbers: packets of some.
        alternations: (graph before, graph resent) in words, and how often.
        old_full, old_passes, old_numbers: bytes in full and passes where the dialect has no reuse.
        ancestry_bytes, ancestry_passes, split_bytes: bytes of tensor records that repeat what an
            earlier split of the same pass computed, in how many passes, of how many graph bytes.
        splits: most graphs on one device in one pass. ancestry_numbers: packets of some.
        growth: bytes of the graphs of the pass with the most splits, in order.
    """

    def __init__(self) -> None:
        self.passes = self.possible = self.resent = 0
        self.full = self.resent_bytes = 0
        self.numbers: list[int] = []
        self.alternations: Counter[tuple[str, str]] = Counter()
        self.old_full = self.old_passes = 0
        self.old_numbers: list[int] = []
        self.ancestry_bytes = self.ancestry_passes = self.split_bytes = 0
        self.splits = 0
        self.ancestry_numbers: list[int] = []
        self.growth: list[int] = []
        self._known: dict[tuple[int, int], OrderedDict[object, str]] = {}
        self._current: dict[tuple[int, int], str] = {}
        self._overlaps: dict[tuple[object, ...], int] = {}

    def passed(self, p: Pass, counts: bool) -> None:
        """Take a pass; `counts` when it lies in the window."""
        counts = counts and p.group.phase in GENERATION
        possible = resent = old = False
        per_place: dict[tuple[int, int], list[Step]] = {}
        for step in p.steps:
            place = (step.connection_id, step.device)
            per_place.setdefault(place, []).append(step)
            if len(self._known) > _MOST_PLACES:
                self._known.clear()
                self._current.clear()
            known = self._known.setdefault(place, OrderedDict())
            label = _label(p, step, len(per_place[place]))
            if step.graph.command != "GRAPH_COMPUTE":
                possible = True
            else:
                key = _key(step)
                if counts:
                    self.full += step.graph.bytes
                reuses = _reuses(step.graph)
                if counts and not reuses:
                    old = True
                    self.old_full += step.graph.bytes
                    _example(self.old_numbers, where(step.graph))
                elif key in known:
                    possible = True
                    if counts:
                        resent = True
                        self._resent(place, step, label)
                known[key] = label
                known.move_to_end(key)
                if len(known) > _KNOWN:
                    known.popitem(last=False)
            self._current[place] = label
        if counts:
            self.passes += 1
            self.possible += possible
            self.resent += resent
            self.old_passes += old
            for steps in per_place.values():
                self._ancestry(steps)

    def _resent(self, place: tuple[int, int], step: Step, label: str) -> None:
        self.resent_bytes += max(0, step.graph.bytes - REUSED)
        _example(self.numbers, where(step.graph))
        pair = (self._current.get(place, ""), label)
        if pair in self.alternations or len(self.alternations) < _MOST_LABELS:
            self.alternations[pair] += 1

    def _ancestry(self, steps: list[Step]) -> None:
        full = [s for s in steps if s.graph.command == "GRAPH_COMPUTE"]
        if len(full) < 2:
            return
        self.split_bytes += sum(s.graph.bytes for s in full)
        repeated = 0
        before: Step | None = None
        for step in full:
            if before is not None:
                repeated += self._overlap(before, step)
            before = step
        if not repeated:
            return
        self.ancestry_passes += 1
        self.ancestry_bytes += repeated
        if len(full) > self.splits:
            self.splits = len(full)
            self.growth = [s.graph.bytes for s in full][:64]
            self.ancestry_numbers = [where(s.graph) for s in full][:_EXAMPLES]

    def _overlap(self, before: Step, step: Step) -> int:
        """Bytes of the tensors computed by the graph before that a graph repeats."""
        a, b = before.graph.graph, step.graph.graph
        if a is None or b is None:
            return 0
        key = (a.digest, b.digest)
        found = self._overlaps.get(key)
        if found is None:
            if len(self._overlaps) > 4096:
                self._overlaps.clear()
            ids = a.tensors["id"][a.tensors["op"] != 0]
            shared = np.isin(b.tensors["id"], ids) & ~np.isin(b.tensors["id"], b.nodes)
            found = self._overlaps[key] = int(shared.sum()) * _RECORD
        return found


def _key(step: Step) -> object:
    graph = step.graph.graph
    return graph.digest if graph is not None else (step.graph.size, step.rows, step.kv_len)


def _reuses(frame: Frame) -> bool:
    shapes = frame.connection.layout.shapes.values()
    return any(shape.name == "GRAPH_RECOMPUTE" for shape in shapes)


def _label(p: Pass, step: Step, split: int) -> str:
    who = "draft head" if p.context.is_head else "draft model" if p.context.is_draft else "target"
    rows = f"{who}, {p.rows} row{'' if p.rows == 1 else 's'}"
    return rows if split < 2 else f"{rows}, split {split}"


def _example(numbers: list[int], number: int) -> None:
    if len(numbers) < _EXAMPLES:
        numbers.append(number)

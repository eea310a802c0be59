"""Where the passes of a token run: devices, crossings, and how long each worker took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from rpcwire.ggml.place import place
from rpcwire.runs.distribution import Distribution

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step

Server = tuple[str, int]
_HIDDEN = ("hidden_in", "hidden_out")
_EXPERTS = ("expert_ids", "expert_out")
_EXAMPLES = 6


@dataclass(slots=True)
class Share:
    """What one worker did of the passes of a token.

    Attributes:
        passes: in which it took part. steps: graphs it computed. waits: answers waited for.
        waited_ns: from a graph's last byte to the first byte of what was read after it.
        nodes: graph nodes of its largest pass: about as many for each layer.
        output: it computes the output layer, which takes time for few nodes.
        numbers: packets of some graphs.
    """

    passes: int = 0
    steps: int = 0
    waits: int = 0
    waited_ns: int = 0
    nodes: int = 0
    output: bool = False
    numbers: list[int] = field(default_factory=list)


class Places:
    """Follows the target's passes of generation.

    Attributes:
        passes: target passes seen. servers: worker to its share.
        most_steps: most graphs of one device in one pass.
        extra_passes: passes in which a device was entered more than once. extra_entries: how
            often beyond the first; extra_bytes, extra_trips: what that moved and waited for.
        extra_roles: bytes of it by role. extra_numbers: packets of some reads.
        relays: times that one worker's output was read and sent to the next; relay_bytes,
            relay_trips, relay_numbers likewise.
        kv_max, kv_min: least and most cells that a mask covered; mask_rows: most rows.
        periods: time from one target pass to the next while generating, by phase ("decode",
            "verify").
        sequences: by phase, rows of its passes.
    """

    def __init__(self) -> None:
        self.passes = 0
        self.servers: dict[Server, Share] = {}
        self.most_steps = 0
        self.extra_passes = self.extra_entries = self.extra_bytes = self.extra_trips = 0
        self.extra_roles: Counter[str] = Counter()
        self.extra_numbers: list[int] = []
        self.relays = self.relay_bytes = self.relay_trips = 0
        self.relay_numbers: list[int] = []
        self.kv_min = self.kv_max = 0
        self.mask_rows = 0
        self.periods = {"decode": Distribution(), "verify": Distribution()}
        self._last: dict[int, tuple[str, int]] = {}

    def passed(self, p: Pass, counts: bool) -> None:
        """Take a pass; `counts` when it lies in the window."""
        phase = p.group.phase
        if phase not in ("decode", "verify", "prefill") or p.context.is_draft or p.context.is_head:
            return
        self._period(p, phase, counts)
        if phase == "prefill" or not counts:
            return
        self.passes += 1
        if p.kv_len:
            self.kv_min = min(self.kv_min or p.kv_len, p.kv_len)
            self.kv_max = max(self.kv_max, p.kv_len)
            self.mask_rows = max(self.mask_rows, p.rows)
        per_place: dict[tuple[int, int], list[Step]] = {}
        for step in p.steps:
            per_place.setdefault((step.connection_id, step.device), []).append(step)
        self._shares(p)
        self._extra(per_place)
        self._relayed(p.steps)

    def _period(self, p: Pass, phase: str, counts: bool) -> None:
        context = p.context.id
        before = self._last.get(context)
        self._last[context] = (phase, p.start_ns)
        if len(self._last) > 64:
            self._last.pop(next(iter(self._last)))
        if counts and before is not None and phase != "prefill" and before[0] != "prefill":
            self.periods[before[0]].add(max(0, p.start_ns - before[1]))

    def _shares(self, p: Pass) -> None:
        seen: dict[Server, int] = {}
        for step in p.steps:
            server = step.graph.connection.server
            share = self.servers.get(server)
            if share is None:
                share = self.servers[server] = Share()
            share.steps += 1
            seen[server] = seen.get(server, 0) + (step.view.nodes if step.view else 0)
            if len(share.numbers) < _EXAMPLES:
                share.numbers.append(place(step.graph))
            share.output |= any(f.role == "logits" for f in step.outputs)
            first = next((f for f in step.outputs if f.response is not None), None)
            if first is not None and first.response is not None:
                share.waits += 1
                share.waited_ns += max(0, first.response.time_ns - step.graph.end_ns)
        for server, nodes in seen.items():
            share = self.servers[server]
            share.passes += 1
            share.nodes = max(share.nodes, nodes)

    def _extra(self, per_place: dict[tuple[int, int], list[Step]]) -> None:
        self.most_steps = max(self.most_steps, max(map(len, per_place.values()), default=0))
        extra = False
        for steps in per_place.values():
            for before, after in pairwise(steps):
                outs = [f for f in before.outputs if f.role in _HIDDEN + _EXPERTS]
                ins = [f for f in after.inputs if f.role in _HIDDEN + _EXPERTS]
                if not outs and not ins:
                    continue
                extra = True
                self.extra_entries += 1
                self.extra_trips += len(outs)
                for f in (*outs, *ins):
                    count = _whole(f)
                    self.extra_bytes += count
                    self.extra_roles[f.role] += count
                if outs and len(self.extra_numbers) < _EXAMPLES:
                    self.extra_numbers.append(place(outs[0]))
        self.extra_passes += extra

    def _relayed(self, steps: list[Step]) -> None:
        for before, after in pairwise(steps):
            if before.graph.connection.server == after.graph.connection.server:
                continue
            for out in before.outputs:
                into = next((f for f in after.inputs if _same(out, f)), None)
                if into is None:
                    continue
                self.relays += 1
                self.relay_trips += 1
                self.relay_bytes += _whole(out) + into.bytes
                if len(self.relay_numbers) < _EXAMPLES:
                    self.relay_numbers += [place(out), place(into)]


def _whole(frame: Frame) -> int:
    """Bytes of a request and its answer."""
    return frame.bytes + (frame.response.bytes if frame.response is not None else 0)


def _same(out: Frame, into: Frame) -> bool:
    """Whether an upload is what was read before: the same bytes, as far as captured."""
    if out.role not in _HIDDEN or into.role not in _HIDDEN or out.data_size != into.data_size:
        return False
    content = out.response.content if out.response is not None else None
    return content is None or into.content is None or content == into.content

"""From a graph to what crosses the network when it is computed once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rpcwire.models.placement import Placement
from rpcwire.predict.nodes import Graph, Node
from rpcwire.predict.schedule import Split, split_graph
from rpcwire.predict.wire import Exchange, Wire


@dataclass(slots=True)
class Pass:
    """One computation of a graph.

    Attributes:
        exchanges: requests in the order in which the client sends them.
        splits: the graph's parts, local ones included, in the order of their computation.
        listed: every block of the graph was checked against recorded runs.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list, repr=False)
    listed: bool = True

    @property
    def up(self) -> int:
        """Bytes from client to workers."""
        return sum(exchange.up for exchange in self.exchanges)

    @property
    def down(self) -> int:
        """Bytes from workers to client."""
        return sum(exchange.down for exchange in self.exchanges)

    @property
    def round_trips(self) -> int:
        """Responses that the client waits for."""
        return sum(exchange.waits for exchange in self.exchanges)


def compute(
    graph: Graph,
    placement: Placement,
    wire: Wire,
    *,
    resend: bool,
    read: list[Node],
    resend_on: frozenset[int] | None = None,
) -> Pass:
    """Work out one pass.

    Args:
        graph: fresh from a Builder.
        placement: where its tensors are.
        wire: sizes of the protocol version.
        resend: graphs go out in full (a new shape, or another graph on the device in between).
        resend_on: devices on which they do whatever `resend` says.
        read: tensors that the client reads at the end (logits, hidden states, candidates).
    """
    splits = split_graph(graph.nodes, placement.cpu)
    result = Pass(splits=splits, listed=graph.listed)
    per_device = Counter(split.device for split in splits)
    devices = placement.devices
    for number, split in enumerate(splits):
        target = devices[split.device]
        for tensor in split.inputs:
            result.exchanges += _copy(tensor, split.device, placement, wire)
        if target.remote:
            nodes = len(split.nodes)
            whole = resend or not wire.reuses_graphs or per_device[split.device] > 1
            whole = whole or split.device in (resend_on or ())
            result.exchanges.append(
                wire.graph(split.device, nodes, split.tensors, number)
                if whole
                else wire.recompute(split.device, nodes, number)
            )
    for tensor in read:
        if devices[tensor.device].remote and tensor.size:
            result.exchanges.append(wire.get_tensor(tensor.device, tensor.size, tensor.down))
    return result


def _copy(tensor: Node, target: int, placement: Placement, wire: Wire) -> list[Exchange]:
    """Move one tensor to device `target`, through the client unless one worker owns both.

    Nothing is sent of an empty tensor.
    """
    if tensor.size == 0:
        return []
    source = tensor.fixed if tensor.op in ("weight", "cache", "input") else tensor.device
    a, b = placement.devices[source], placement.devices[target]
    if a.remote and b.remote and a.server == b.server:
        return [wire.copy_tensor(target, "copy")]
    moves = []
    if a.remote:
        moves.append(wire.get_tensor(source, tensor.size, tensor.down))
    if b.remote:
        moves.append(wire.set_tensor(target, tensor.size, tensor.up))
    return moves

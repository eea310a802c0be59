"""Where each node of a graph is computed and where the graph is split.

The rules of `ggml_backend_sched_split_graph`: bind what is bound, spread assignments to
neighbours (workers and GPUs before the CPU), then cut wherever the device changes. A tensor is
copied to a device once per pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rpcwire.predict.nodes import UNASSIGNED, Node

_NOT_DRAWN = frozenset({"rope", "flash"})  #: their weights are too small to choose a device by


@dataclass(slots=True)
class Split:
    """A run of nodes that one device computes.

    Attributes:
        device: its number. nodes: in order, views included.
        inputs: tensors that must be copied to the device before, in order.
        tensors: tensors that a request for it lists, everything its nodes reach on the device.
    """

    device: int
    nodes: list[Node] = field(default_factory=list, repr=False)
    inputs: list[Node] = field(default_factory=list)
    tensors: int = 0


def split_graph(nodes: list[Node], cpu: int) -> list[Split]:
    """Assign every node to a device and cut the graph.

    Args:
        nodes: in the order in which they are computed.
        cpu: number of the last device.
    """
    for node in nodes:
        node.device = _bound(node)
    for stops_at in (cpu, UNASSIGNED):
        _spread(nodes, stops_at)
        _spread(reversed(nodes), stops_at)
    for node in nodes:
        _assign_rest(node, cpu)
    return _cut(nodes)


def _bound(node: Node) -> int:
    if node.fixed != UNASSIGNED:
        return node.fixed
    if node.base is not None and node.base.op == "cache":
        return node.base.fixed
    if node.op not in _NOT_DRAWN:
        for source in node.sources:
            if source.op == "weight":
                return source.fixed
    return UNASSIGNED


def _spread(nodes: Iterable[Node], stops_at: int) -> None:
    """Give unassigned nodes the device of the one before; device `stops_at` does not spread."""
    current = UNASSIGNED
    for node in nodes:
        if node.is_view:
            continue
        if node.device != UNASSIGNED:
            current = node.device if node.device != stops_at else UNASSIGNED
        elif current != UNASSIGNED:
            node.device = current


def _assign_rest(node: Node, cpu: int) -> None:
    if node.device == UNASSIGNED and node.base is not None:
        node.device = _device(node.base)
    for source in node.sources:
        if _device(source) == UNASSIGNED:
            source.device = _device(source.base) if source.base is not None else node.device
    if node.device == UNASSIGNED:
        node.device = cpu


def _device(node: Node) -> int:
    return node.fixed if node.op in ("weight", "cache", "input") else node.device


def _cut(nodes: list[Node]) -> list[Split]:
    first = next((node.device for node in nodes if not node.is_view), UNASSIGNED)
    splits = [Split(first)]
    copied: set[tuple[int, int]] = set()
    for node in nodes:
        current = splits[-1]
        if not node.is_view:
            if node.device != current.device:
                current = Split(node.device)
                splits.append(current)
            for source in node.sources:
                key = (id(source), current.device)
                if _device(source) != current.device and key not in copied:
                    copied.add(key)
                    current.inputs.append(source)
        current.nodes.append(node)
    for split in splits:
        split.tensors = _reach(split)
    return splits


def _reach(split: Split) -> int:
    """Count the tensors that a graph request lists: all that its nodes reach.

    Where a node takes a tensor of another device, its source is the copy: a leaf. Views keep
    their source as it is.
    """
    found: set[tuple[int, int]] = set()
    stack = [(node, UNASSIGNED) for node in split.nodes]
    while stack:
        node, copy = stack.pop()
        if (id(node), copy) in found:
            continue
        found.add((id(node), copy))
        if copy != UNASSIGNED:
            continue
        for source in node.sources:
            crosses = not node.is_view and _device(source) != node.device
            stack.append((source, node.device if crosses else UNASSIGNED))
        if node.base is not None:
            stack.append((node.base, UNASSIGNED))
    return len(found)

"""The nodes of a compute graph, as far as their place on the wire depends on them."""

from __future__ import annotations

from dataclasses import dataclass, field

UNASSIGNED = -1


@dataclass(slots=True, eq=False)
class Node:
    """One tensor of a graph: an operation, or a leaf (input, weight, cache).

    Attributes:
        name: for reading and for tests; nothing is decided by it.
        op: word of the operation ("mm", "view", …), or "input", "weight", "cache".
        size: bytes that cross when the tensor is copied to another device.
        up, down: its role when it is uploaded to a worker, and when it is read from one.
        sources: what it is computed from; base: the tensor that it is a view of, or None.
        fixed: device that it is bound to from the start, or UNASSIGNED.
        device: device it was assigned to.
    """

    name: str
    op: str
    size: int = 0
    up: str = "hidden_in"
    down: str = "hidden_out"
    sources: list[Node] = field(default_factory=list, repr=False)
    base: Node | None = field(default=None, repr=False)
    fixed: int = UNASSIGNED
    device: int = UNASSIGNED

    @property
    def is_view(self) -> bool:
        """Operations that never decide where a graph is split (`ggml_is_view_op`)."""
        return self.op == "view"


@dataclass(slots=True)
class Graph:
    """The nodes of one pass in the order in which they are computed, leaves apart."""

    nodes: list[Node] = field(repr=False)
    logits: Node | None = None
    hidden: Node | None = None  #: hidden states that a draft head reads (`h_nextn`)
    samples: list[Node] = field(default_factory=list)  #: candidates read for sampling
    listed: bool = True  #: every block of it was checked against recorded runs of this build

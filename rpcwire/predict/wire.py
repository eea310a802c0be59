"""Bytes of each request and response, per protocol version."""

from __future__ import annotations

from dataclasses import dataclass

TENSOR = 296  #: bytes of a serialised tensor
_REQUEST, _RESPONSE = 9, 8  #: headers


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response, if it has one.

    Attributes:
        device: number of the device (of the placement) that it concerns.
        command, role: names as in the protocol tables and the accounts.
        up, down: bytes, headers included. waits: the client waits for the response.
        computes: nodes that the worker computes because of it, or 0.
        split: number of the split in the pass, for compute times; -1 for other requests.
    """

    device: int
    command: str
    role: str
    up: int
    down: int = 0
    waits: bool = False
    computes: int = 0
    split: int = -1


@dataclass(frozen=True, slots=True)
class Wire:
    """Sizes of exchanges under one protocol version."""

    protocol: tuple[int, int, int]

    def at_least(self, major: int, minor: int = 0) -> bool:
        """Whether the protocol is this version or a later one."""
        return self.protocol >= (major, minor, 0)

    def set_tensor(self, device: int, size: int, role: str) -> Exchange:
        """Upload of `size` bytes of one tensor."""
        up = _REQUEST + TENSOR + 8 + (1 if self.at_least(7) else 0) + size
        answered = not self.at_least(2)
        down = _RESPONSE if answered else 0
        return Exchange(device, "SET_TENSOR", role, up, down, answered)

    def get_tensor(self, device: int, size: int, role: str) -> Exchange:
        """Download of `size` bytes of one tensor."""
        up = _REQUEST + TENSOR + 16
        return Exchange(device, "GET_TENSOR", role, up, _RESPONSE + size, waits=True)

    def copy_tensor(self, device: int, role: str) -> Exchange:
        """Copy between two devices behind one worker."""
        return Exchange(device, "COPY_TENSOR", role, _REQUEST + 2 * TENSOR, _RESPONSE + 1, True)

    def graph(self, device: int, nodes: int, tensors: int, split: int) -> Exchange:
        """A whole graph."""
        fields = 12 if self.at_least(3) else 8
        up = _REQUEST + fields + 8 * nodes + TENSOR * tensors
        answered = not self.at_least(3, 5)
        down = _RESPONSE + 1 if answered else 0
        return Exchange(device, "GRAPH_COMPUTE", "graph", up, down, answered, nodes, split)

    def recompute(self, device: int, nodes: int, split: int) -> Exchange:
        """The device's stored graph once more."""
        up = _REQUEST + 4
        return Exchange(device, "GRAPH_RECOMPUTE", "graph_reuse", up, 0, False, nodes, split)

    def alloc_query(self, device: int) -> Exchange:
        """One GET_ALLOC_SIZE."""
        size = 4 if self.at_least(3) else 0
        size += TENSOR * (11 if self.at_least(3, 6) else 1)
        up, down = _REQUEST + size, _RESPONSE + 8
        return Exchange(device, "GET_ALLOC_SIZE", "alloc_query", up, down, waits=True)

    @property
    def reuses_graphs(self) -> bool:
        """Whether an unchanged graph is not sent again."""
        return self.at_least(3, 5)

"""Graphs as numpy records: what a GRAPH_COMPUTE request carries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rpcwire.ggml.tensor import PACKED_296, TensorLayout


@dataclass(eq=False)
class Graph:
    """One submitted graph.

    Attributes:
        device: the device that computes it.
        nodes: uint64[n], ids of the tensors to compute, in order.
        tensors: TENSOR[m], the records of all tensors that the nodes reach.
        layout: how the build packed a record.
        raw: the payload that the arrays are views of.
        twin: an earlier graph with the same payload, if somebody has noticed.
    """

    device: int
    nodes: NDArray[np.uint64]
    tensors: NDArray[np.void]
    layout: TensorLayout = PACKED_296
    raw: bytes = field(default=b"", repr=False)
    twin: Graph | None = field(default=None, repr=False)

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are equal for two graphs with equal payloads."""
        if self.twin is not None:
            return self.twin.digest
        return hashlib.blake2b(self.raw, digest_size=16).digest()

    @cached_property
    def index(self) -> dict[int, int]:
        """Row in `tensors` of each tensor id."""
        ids: list[int] = self.tensors["id"].tolist()
        return {tensor: row for row, tensor in enumerate(ids)}

    @cached_property
    def node_rows(self) -> NDArray[np.int64]:
        """int64[n], row in `tensors` of each node, -1 for an id that has no record."""
        return self.rows(self.nodes)

    @cached_property
    def src_rows(self) -> NDArray[np.int64]:
        """int64[m, sources], row in `tensors` of each source, -1 for none."""
        return self.rows(self.tensors["src"])

    @cached_property
    def view_rows(self) -> NDArray[np.int64]:
        """int64[m], row in `tensors` of the tensor each one is a view of, -1 for none."""
        return self.rows(self.tensors["view_src"])

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        order = np.argsort(self.tensors["id"], kind="stable")
        return order, self.tensors["id"][order]

    def rows(self, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Rows in `tensors` of tensor ids of any shape; -1 where there is no such record."""
        order, known = self._sorted
        if not len(known):
            return np.full(ids.shape, -1, np.int64)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where((known[at] == ids) & (ids != 0), order[at], -1)

    def __contains__(self, tensor_id: int) -> bool:
        """True when the graph holds a record of that id."""
        return tensor_id in self.index


def counts(payload: bytes, size: int, layout: TensorLayout, device: bool) -> tuple[int, int] | None:
    """(nodes, tensors) that a graph payload of `size` bytes claims; None if that does not add up.

    `payload` may be only the front of it: then the tensor count follows from the size.
    """
    at = 4 * device
    if len(payload) < at + 4 or size < at + 8:
        return None
    nodes = int.from_bytes(payload[at : at + 4], "little")
    tensors, odd = divmod(size - at - 8 - 8 * nodes, layout.size)
    if odd or tensors < 0 or nodes > tensors:
        return None
    at += 4 + 8 * nodes
    if len(payload) >= at + 4 and int.from_bytes(payload[at : at + 4], "little") != tensors:
        return None
    return nodes, tensors


def parse_graph(payload: bytes, layout: TensorLayout, device: bool) -> Graph | None:
    """The graph that a whole payload holds; None if its counts do not match its size.

    Args:
        payload: of a GRAPH_COMPUTE request.
        layout: the build's tensor record.
        device: True when the payload begins with a device number.
    """
    claimed = counts(payload, len(payload), layout, device)
    if claimed is None:
        return None
    nodes, tensors = claimed
    at = 4 * device
    return Graph(
        device=int.from_bytes(payload[:4], "little") if device else 0,
        nodes=np.frombuffer(payload, "<u8", nodes, at + 4),
        tensors=np.frombuffer(payload, layout.dtype, tensors, at + 8 + 8 * nodes),
        layout=layout,
        raw=payload,
    )

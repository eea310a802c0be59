"""Steps: one graph submission with its inputs and outputs, joined by tensor ids.

The join rule: every input's tensor id is in the graph submitted next on that connection, every
output's id in the current one; a read or write whose tensor is in neither is state or weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rpcwire.runs.shapes import input_roles, integers

if TYPE_CHECKING:
    import numpy as np

    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.graphview import GraphView


@dataclass(slots=True, eq=False)
class Step:
    """One graph submission.

    Attributes:
        connection_id, device: where it runs.
        graph: the GRAPH_COMPUTE or GRAPH_RECOMPUTE frame.
        view: structure of the graph; None when it was sent before the capture began.
        inputs: uploads, in order, their roles settled.
        outputs: reads, in order.
        rows: tokens in the batch, 0 unknown. output_rows: rows whose result is asked for, -1
            unknown. kv_len: padded cells the mask covers, 0 unknown.
        positions, cells, output_ids: int64 arrays, or None when not captured (or not there).
        mask: upload of the (first) mask, or None.
        sent: (connection id, tensor id) of its inputs.
        enters_hidden: more crosses than embeddings: layers before it ran elsewhere.
    """

    connection_id: int
    device: int
    graph: Frame
    view: GraphView | None
    inputs: list[Frame]
    outputs: list[Frame] = field(default_factory=list)
    rows: int = 0
    output_rows: int = -1
    kv_len: int = 0
    positions: np.ndarray | None = None
    cells: np.ndarray | None = None
    output_ids: np.ndarray | None = None
    mask: Frame | None = None
    enters_hidden: bool = False
    sent: set[tuple[int, int]] = field(default_factory=set)

    @property
    def start_ns(self) -> int:
        """When its first byte passed."""
        return min([f.time_ns for f in self.inputs[:1]] + [self.graph.time_ns])

    @property
    def in_batch(self) -> bool:
        """Whether it takes an input with one element or row for each token of the batch."""
        return self.rows > 0 and (
            self.positions is not None or self.cells is not None or self.mask is not None
        )

    @property
    def is_shift(self) -> bool:
        """Whether its graph only rotates cached keys to other positions (K-shift)."""
        return self.view is not None and self.view.is_shift

    def by_role(self, role: str) -> Frame | None:
        """The first upload of a role."""
        for f in self.inputs:
            if f.role == role:
                return f
        return None


def make_step(
    connection_id: int,
    graph: Frame,
    view: GraphView | None,
    inputs: list[Frame],
    exact: bool = True,
) -> Step:
    """Assemble a step; settles the roles of its inputs except that of activations.

    Args:
        connection_id: of the connection that carries it.
        graph: the submission.
        view: the graph's structure, or None when unknown.
        inputs: its uploads, in order.
        exact: the structure is that of this very graph, so that it tells the rows too.

    Returns:
        The step, rows and contents filled in as far as they were captured.
    """
    step = Step(connection_id, graph.device, graph, view, inputs)
    step.sent = {(connection_id, f.tensor_id) for f in inputs}
    if view is not None:
        for f in inputs:
            f.role = f.role or view.inputs.get(f.tensor_id, "other_input")
    else:
        for f, role in zip(inputs, input_roles(inputs), strict=True):
            f.role = f.role or role
    roles = [f.role for f in inputs]
    wide = roles.count("activation") + roles.count("activation_branch")
    step.enters_hidden = wide > 1 or "activation_pair" in roles or "expert_out" in roles
    _read_inputs(step, exact and _agrees(step))
    return step


def _agrees(step: Step) -> bool:
    """Whether a graph's rows are those of the inputs: if not, the latest graph was lost whole."""
    view, positions = step.view, step.by_role("positions")
    if view is None or positions is None or not positions.tensor.ne:
        return True
    return int(positions.tensor.ne[0]) == view.rows * (4 if view.mrope else 1)


def _read_inputs(step: Step, exact: bool) -> None:
    if step.view is not None and exact:
        step.rows = step.view.rows
        step.output_rows = step.view.output_rows
    for f in step.inputs:
        read = _CONTENTS.get(f.role)
        if read is not None and f.tensor is not None and f.tensor.ne:
            read(step, f)
    positions = step.positions
    if positions is not None and step.rows and len(positions) != step.rows:
        step.positions = positions[: step.rows] if len(positions) > step.rows else None


def _positions(step: Step, frame: Frame) -> None:
    if step.positions is not None:
        return
    length = int(frame.tensor.ne[0])
    four = step.view.mrope if step.view is not None else length == 4 * step.rows
    if not step.rows:
        step.rows = length // 4 if four else length
    step.positions = integers(frame)
    if four and step.positions is not None:  # in four sections, of which the first is the text's
        step.positions = step.positions[: step.rows]


def _cells(step: Step, frame: Frame) -> None:
    if step.cells is None:
        step.cells = integers(frame)


def _output_ids(step: Step, frame: Frame) -> None:
    step.output_rows = int(frame.tensor.ne[0])
    step.output_ids = integers(frame)


def _mask(step: Step, frame: Frame) -> None:
    if step.mask is None:
        step.mask = frame
        step.kv_len = int(frame.tensor.ne[0])


def _activation(step: Step, frame: Frame) -> None:
    if not step.rows:
        step.rows = int(frame.tensor.ne[1]) * int(frame.tensor.ne[2])


#: What an input tells about the batch, by its role.
_CONTENTS: dict[str, Callable[[Step, Frame], None]] = {
    "positions": _positions,
    "kv_indices": _cells,
    "output_ids": _output_ids,
    "kv_mask": _mask,
    **dict.fromkeys(
        ("activation", "activation_pair", "activation_branch", "head_embedding"), _activation
    ),
}

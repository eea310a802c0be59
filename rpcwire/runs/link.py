"""One connection of a client: its buffers, current graphs and waiting uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.graphview import GraphView
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step


class Link:
    """What the frames of a connection have told so far.

    Attributes:
        id, start_captured: of the connection.
        previous: the latest request.
        greeting: frames until it is known what the connection is for; None from then on.
        uploads: SET_TENSORs that wait for the graph that names them.
        views, steps: current graph and latest step (with its pass) by device, the latest last.
        compute, caches, recurrent, weights, allocated: remote buffers of each kind (recurrent
            ones are caches too).
        reads: role of outputs by the size of their response.
    """

    __slots__ = (
        "allocated",
        "caches",
        "compute",
        "greeting",
        "id",
        "previous",
        "reads",
        "recurrent",
        "start_captured",
        "steps",
        "uploads",
        "views",
        "weights",
    )

    def __init__(self, connection_id: int, start_captured: bool) -> None:
        self.id = connection_id
        self.start_captured = start_captured
        self.previous: Frame | None = None
        self.greeting: list[Frame] | None = []
        self.uploads: list[Frame] = []
        self.views: dict[int, GraphView | None] = {}
        self.steps: dict[int, tuple[Step, Pass]] = {}
        self.compute: set[int] = set()
        self.caches: set[int] = set()
        self.recurrent: set[int] = set()
        self.weights: set[int] = set()
        self.allocated: set[int] = set()
        self.reads: dict[int, str] = {}

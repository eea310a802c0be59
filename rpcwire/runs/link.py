"""One connection of a client: its buffers, current graphs and waiting uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.ggml.stream import RpcConnection
    from rpcwire.runs.graphview import GraphView
    from rpcwire.runs.passes import Pass
    from rpcwire.runs.steps import Step

_MOST_KNOWN = 32  #: structures of graphs kept for one that is lost


class Link:
    """What the frames of a connection have told so far.

    Attributes:
        id, start_captured: of the connection.
        previous: the latest request.
        greeting: frames until it is known what the connection is for; None from then on.
        uploads: SET_TENSORs that wait for the graph that names them.
        views: structure of the current graph by device, and whether it is known for certain.
        steps: latest step, with its pass, by device, the latest last.
        compute, caches, recurrent, weights, allocated: remote buffers of each kind (recurrent
            ones are caches too).
        known: structures of graphs that came whole, with the size of (the latest of) their frames.
        holed: bytes of a request were lost since the last look. undecoded: bytes at that time.
        reads: role of outputs by the size of their response.
    """

    __slots__ = (
        "allocated",
        "caches",
        "compute",
        "connection",
        "greeting",
        "holed",
        "id",
        "known",
        "previous",
        "reads",
        "recurrent",
        "start_captured",
        "steps",
        "undecoded",
        "uploads",
        "views",
        "weights",
    )

    def __init__(self, connection: RpcConnection) -> None:
        self.connection = connection
        self.id = connection.id
        self.start_captured = connection.start_captured
        self.known: dict[GraphView, int] = {}
        self.holed = False
        self.undecoded = 0
        self.previous: Frame | None = None
        self.greeting: list[Frame] | None = []
        self.uploads: list[Frame] = []
        self.views: dict[int, tuple[GraphView | None, bool]] = {}
        self.steps: dict[int, tuple[Step, Pass]] = {}
        self.compute: set[int] = set()
        self.caches: set[int] = set()
        self.recurrent: set[int] = set()
        self.weights: set[int] = set()
        self.allocated: set[int] = set()
        self.reads: dict[int, str] = {}

    def learn(self, view: GraphView, size: int) -> None:
        """A graph came whole, in a frame of that size."""
        self.known.pop(view, None)
        self.known[view] = size
        if len(self.known) > _MOST_KNOWN:
            del self.known[next(iter(self.known))]

    def alike(self, size: int) -> GraphView | None:
        """The structure of a graph that was lost: the latest whole one with the same inputs.

        Args:
            size: of the frame; equal sizes decide between several.
        """
        ids = {f.tensor_id for f in self.uploads}
        found = [
            (known == size, view)
            for view, known in self.known.items()
            if ids and len(ids & view.inputs.keys()) * 2 > len(ids)
        ]
        return max(reversed(found), key=lambda pair: pair[0])[1] if found else None

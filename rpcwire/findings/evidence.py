"""Everything that findings need of a capture, gathered in one pass over its frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rpcwire.findings.gather.contacts import Contacts
from rpcwire.findings.gather.graphs import Graphs
from rpcwire.findings.gather.loading import Loading
from rpcwire.findings.gather.places import Places
from rpcwire.findings.gather.waits import Waits

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass


class Evidence:
    """Observers of a run: hand `frame` and `passed` to a Session or Reading, then call `finish`.

    Attributes:
        holds: whether a moment (ns) lies in the window that counts; None takes everything. Frames
            must have been narrowed to it already, passes need not.
    """

    def __init__(self) -> None:
        self.graphs = Graphs()
        self.places = Places()
        self.waits = Waits()
        self.loading = Loading()
        self.contacts = Contacts()
        self.holds: Callable[[int], bool] | None = None

    def frame(self, frame: Frame) -> None:
        """See a frame whose phase and role are final."""
        self.waits.frame(frame)
        self.loading.frame(frame)
        self.contacts.frame(frame)

    def passed(self, p: Pass) -> None:
        """See a pass whose phase is final."""
        counts = self.holds is None or self.holds(p.start_ns)
        self.graphs.passed(p, counts)
        self.places.passed(p, counts)

    def finish(self) -> None:
        """No more frames."""
        self.loading.finish()

"""One client process: what each command of its connections means, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.ggml.versions import RESPONSE_HEADER
from rpcwire.runs.graphview import GraphView, ViewCache
from rpcwire.runs.judge import Judge
from rpcwire.runs.link import Link
from rpcwire.runs.passes import Group, Pass, PassBuilder, give_phase
from rpcwire.runs.requests import RequestTracker
from rpcwire.runs.roles import (
    ALLOCATIONS,
    COMMAND_ROLE,
    PROBES,
    activation_role,
    read_role,
)
from rpcwire.runs.shapes import output_role
from rpcwire.runs.steps import Step, make_step

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.ggml.stream import RpcConnection
    from rpcwire.runs.run import RunBuilder

_MAX_PENDING = 20_000  #: uploads that wait for the graph that names them
_MAX_QUERIES = 20_000
_MAX_SIZES = 1_000


class Client:
    """Takes the frames of one client in order and decides role and phase of each.

    Attributes:
        passes: its passes and contexts. tracker: its requests.
    """

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self.passes = PassBuilder()
        self.tracker = RequestTracker()
        self._links: dict[RpcConnection, Link] = {}
        self._servers: dict[tuple[str, int], Link] = {}
        self._queries: list[Frame] = []  #: GET_ALLOC_SIZE (and their greetings) before a pass
        self._state: Group | None = None
        self._restored = False
        self._views = ViewCache()
        self._judge = Judge(self.passes, self.tracker)
        self._handlers = {
            **dict.fromkeys(PROBES, self._probe),
            **dict.fromkeys(ALLOCATIONS, self._allocation),
            "BUFFER_CLEAR": self._clear,
            "FREE_BUFFER": self._free,
            "GET_ALLOC_SIZE": self._alloc_query,
            "SET_TENSOR": self._upload,
            "SET_TENSOR_HASH": self._upload,
            "GET_TENSOR": self._read,
            "COPY_TENSOR": self._copy,
            "GRAPH_COMPUTE": self._graph,
            "GRAPH_RECOMPUTE": self._graph,
        }

    # -- frames in -----------------------------------------------------------------------------

    def request(self, frame: Frame) -> None:
        """Take a request."""
        link = self._links.get(frame.connection) or self._link(frame.connection)
        previous, link.previous = link.previous, frame
        if previous is not None:
            previous.next_ns = frame.time_ns
            self._maybe_trip(previous)
        if frame.missing:
            link.holed = True
        frame.role = COMMAND_ROLE.get(frame.command, "")
        if link.greeting is not None:
            if frame.command == "HELLO":
                link.greeting.append(frame)
                return
            self._greeted(link, frame)
        handler = self._handlers.get(frame.command)
        if handler is None:
            give_phase(frame, "other")
        else:
            handler(link, frame)

    def response(self, frame: Frame) -> None:
        """Take a response; its request, if captured, came before."""
        request = frame.request
        if request is None:
            self._orphan(frame)
            return
        frame.phase = request.phase
        if request.next_ns:
            self._maybe_trip(request)
        group = request.group
        if group is not None:
            group.end_ns = max(group.end_ns, frame.end_ns)
        elif request.command == "ALLOC_BUFFER" and frame.content and len(frame.content) >= 8:
            self._links[frame.connection].allocated.add(int.from_bytes(frame.content[:8], "little"))

    def _orphan(self, frame: Frame) -> None:
        """A response whose request was lost: its size tells, if reads of that size came before."""
        link = self._links.get(frame.connection)
        role = link.reads.get(frame.size) if link is not None else None
        latest = self.passes.latest
        if role is None or latest is None:
            give_phase(frame, "other")
            return
        frame.role = role
        latest.group.add(frame)

    def finish(self) -> None:
        """No more frames."""
        for link in self._links.values():
            self._end_link(link)
            if link.previous is not None and link.previous.response is not None:
                link.previous.next_ns = link.previous.response.time_ns + 1
                self._maybe_trip(link.previous)
        self._settle_passes(finishing=True)
        if self._state is not None:
            self._state.settle("state")
        self._settle_queries("load")
        self.tracker.finish()

    # -- connections ---------------------------------------------------------------------------

    def _link(self, connection: RpcConnection) -> Link:
        link = self._links[connection] = Link(connection)
        self._judge.lossy |= not connection.start_captured
        old = self._servers.get(connection.server)
        if old is not None:  # a server serves one connection at a time
            self._end_link(old)
            self.passes.forget(old.id)
        self._servers[connection.server] = link
        return link

    def _end_link(self, link: Link) -> None:
        for frame in link.greeting or ():
            give_phase(frame, "load")
        link.greeting = None
        self._flush_uploads(link)

    def _greeted(self, link: Link, frame: Frame) -> None:
        """The first command after HELLO tells what a connection is for."""
        greeting, link.greeting = link.greeting or [], None
        if frame.command == "GET_ALLOC_SIZE":
            self._queries.extend(greeting)
            return
        for f in greeting:
            give_phase(f, "load")

    def _maybe_trip(self, request: Frame) -> None:
        response = request.response
        if response is not None and not request.trip and response.time_ns < request.next_ns:
            self._run.round_trip(request)

    # -- commands ------------------------------------------------------------------------------

    def _probe(self, link: Link, frame: Frame) -> None:
        give_phase(frame, "load")

    def _allocation(self, link: Link, frame: Frame) -> None:
        if frame.command == "INIT_TENSOR" and frame.tensor is not None:
            link.weights.add(frame.tensor.buffer)
        if frame.command == "ALLOC_BUFFER":
            self._settle_queries("load")
        give_phase(frame, "load")

    def _free(self, link: Link, frame: Frame) -> None:
        self._settle_queries("load")
        pointer = _pointer(frame)
        for known in (link.compute, link.caches, link.recurrent, link.weights, link.allocated):
            known.discard(pointer)
        self.passes.forget(link.id, pointer)
        give_phase(frame, "load")

    def _clear(self, link: Link, frame: Frame) -> None:
        """A clear right after a context's first pass belongs to the warm-up, if it was one."""
        latest = self.passes.latest
        pointer = _pointer(frame)
        its = latest is not None and (
            self.passes.contexts.get((link.id, pointer)) is latest.context
            or latest.steps[-1].view is None
        )
        if latest is not None and its and latest.next is None and not latest.group.phase:
            latest.clears.append(frame)
            if latest.may_warm_up():
                return
            latest.clears.pop()
        give_phase(frame, "load")

    def _alloc_query(self, link: Link, frame: Frame) -> None:
        self._queries.append(frame)
        if len(self._queries) > _MAX_QUERIES:
            self._settle_queries("load")

    def _upload(self, link: Link, frame: Frame) -> None:
        tensor = frame.tensor
        buffer = 0
        if tensor is not None:
            layout = tensor.layout.shape_struct
            if len(tensor.raw) >= layout.size:
                frame.tensor_id, _type, buffer, *_ = layout.unpack_from(tensor.raw)
        if buffer in link.caches:
            self._move_state(link, frame, restoring=True)
        elif buffer in link.weights and buffer not in link.compute:
            self._weights(frame)
        else:
            link.uploads.append(frame)
            if len(link.uploads) > _MAX_PENDING:
                self._flush_uploads(link)

    def _read(self, link: Link, frame: Frame) -> None:
        tensor = frame.tensor
        if tensor is None:
            give_phase(frame, "other")
            return
        for step, p in reversed(link.steps.values()):
            role = step.view.output(tensor.id) if step.view is not None else None
            if role is None and step.view is None and tensor.buffer not in link.caches:
                role = output_role(frame, _widest(step))
            if role is not None:
                self._output(link, step, p, frame, role)
                return
        if tensor.buffer in link.caches or not link.compute or tensor.buffer not in link.compute:
            self._move_state(link, frame, restoring=False)
        elif link.steps:
            step, p = next(reversed(link.steps.values()))
            self._output(link, step, p, frame, "hidden_out")
        else:
            give_phase(frame, "other")

    def _copy(self, link: Link, frame: Frame) -> None:
        tensor = frame.tensor
        latest = self.passes.latest
        if tensor is not None and tensor.buffer in link.caches:
            self._state_group().add(frame)
        elif latest is not None:
            latest.group.add(frame)
        else:
            give_phase(frame, "load")

    def _graph(self, link: Link, frame: Frame) -> None:
        view, exact = self._view(link, frame)
        inputs = self._take_uploads(link, view)
        step = make_step(link.id, frame, view, inputs, exact)
        self._look_for_losses(link)
        if view is not None:
            link.compute |= view.compute_buffers
            link.caches |= view.kv_buffers | view.recurrent_buffers
            link.recurrent |= view.recurrent_buffers
            link.weights |= view.weights
        caches = (view.kv_buffers | view.recurrent_buffers) if view is not None else frozenset()
        created = link.start_captured or bool(caches & link.allocated)
        p = self.passes.place(step, self._run.next_pass_id, created)
        link.steps.pop(frame.device, None)
        link.steps[frame.device] = (step, p)
        self._account_step(p, step)

    def _view(self, link: Link, frame: Frame) -> tuple[GraphView | None, bool]:
        """Structure of the graph that is submitted, and whether it is that very one's."""
        if frame.command == "GRAPH_RECOMPUTE":
            return link.views.get(frame.device, (None, False))
        if frame.graph is not None:
            view = self._views.view(frame.graph)
            link.learn(view, frame.size)
            found: tuple[GraphView | None, bool] = (view, True)
        else:
            found = (link.alike(frame.size), False)
        link.views[frame.device] = found
        return found

    def _look_for_losses(self, link: Link) -> None:
        undecoded = link.connection.undecoded_bytes
        if undecoded != link.undecoded or link.holed:
            link.undecoded, link.holed = undecoded, False
            self._judge.lossy = True
            self.tracker.doubt()

    # -- steps and passes ----------------------------------------------------------------------

    def _take_uploads(self, link: Link, view: GraphView | None) -> list[Frame]:
        """The waiting uploads that this graph reads; the others go on waiting."""
        uploads, link.uploads = link.uploads, []
        if view is None:  # inputs share the compute buffer; what lies elsewhere is weights
            last = uploads[-1].tensor.buffer if uploads and uploads[-1].tensor else None
            return [
                f
                for f in uploads
                if not self._left_over(link, f, f.tensor is None or f.tensor.buffer != last)
            ]
        taken = []
        for f in uploads:
            if f.tensor_id in view.inputs:
                taken.append(f)
            elif not self._left_over(link, f, f.tensor is None or f.tensor.buffer in view.weights):
                link.uploads.append(f)
        return taken

    def _left_over(self, link: Link, frame: Frame, settled: bool) -> bool:
        if settled or frame.tensor is None:
            self._weights(frame)
            return True
        return False

    def _flush_uploads(self, link: Link) -> None:
        for f in link.uploads:
            self._weights(f)
        link.uploads = []

    def _weights(self, frame: Frame) -> None:
        frame.role = frame.role or "weights"
        frame.content = None
        give_phase(frame, "load")

    def _account_step(self, p: Pass, step: Step) -> None:
        first = p.steps[0] is step
        if first:
            p.state_before, self._state = self._state, None
            p.restored_before, self._restored = self._restored, False
            if self._queries:  # they are a part of preparing the batch
                p.start_ns = min(p.start_ns, self._queries[0].time_ns)
        for f in self._queries:
            f.pass_id = p.id
            p.group.add(f)
        self._queries = []
        for f in step.inputs:
            f.role = activation_role(f, p, step)
            f.pass_id = p.id
            p.group.add(f)
        step.graph.pass_id = p.id
        p.group.add(step.graph)
        if first:
            self._settle_passes()

    def _output(self, link: Link, step: Step, p: Pass, frame: Frame, role: str) -> None:
        step.outputs.append(frame)
        frame.role = read_role(role, self._has_head())
        if role in ("logits", "sampling", "hidden_flagged"):
            p.complete = p.context.answers = True
        p.chose_experts |= role == "expert_ids"
        if len(link.reads) < _MAX_SIZES:
            link.reads[frame.data_size + RESPONSE_HEADER] = frame.role
        if role == "logits":
            p.logits = frame
        elif role == "sampling":
            p.samples.append(frame)
        elif frame.role == "hidden_out" and p.output_rows < 0 and p.rows:
            asked = int(frame.tensor.ne[1])
            if asked < p.rows or p.rows == 1:
                p.output_rows = asked
        frame.pass_id = p.id
        p.group.add(frame)

    def _has_head(self) -> bool:
        return any(c.is_head and c.alive for c in self.passes.contexts.values())

    def _settle_passes(self, finishing: bool = False) -> None:
        for p in self.passes.closed(finishing):
            if p.state_before is not None:
                self._judge.weigh(p.state_before, p)
                p.state_before.settle("state")
            phase = self._judge.phase(p)
            for f in p.clears:
                give_phase(f, "warmup" if phase == "warmup" else "load")
            p.clears = []
            p.group.settle(phase)
            self._run.settled(p)

    # -- state ---------------------------------------------------------------------------------

    def _state_group(self) -> Group:
        if self._state is None:
            self._state = Group()
        return self._state

    def _move_state(self, link: Link, frame: Frame, restoring: bool) -> None:
        buffer = frame.tensor.buffer if frame.tensor is not None else 0
        frame.role = "recurrent_state" if buffer in link.recurrent else "kv_state"
        frame.content = None
        self._restored |= restoring
        self._state_group().add(frame)

    def _settle_queries(self, phase: str) -> None:
        for f in self._queries:
            give_phase(f, phase)
        self._queries = []


def _pointer(frame: Frame) -> int:
    """The remote_ptr that a buffer command begins with; 0 when it was not captured."""
    return int.from_bytes(frame.head[:8], "little") if len(frame.head) >= 8 else 0


def _widest(step: Step) -> int:
    return max((int(f.tensor.ne[0]) for f in step.inputs if f.role.endswith("_in")), default=0)

"""The protocol versions as one table: every row holds only what it changes.

`ROWS` is the table; `DIALECTS` are its rows, each overlaid on the one it is based on. Whoever
needs to know what a version does asks a `Dialect`; nobody compares version numbers.
Source: the history of ggml-rpc.cpp and ggml-rpc.h in ggml, and recorded runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rpcwire.ggml.tensor import (
    PACKED_292,
    PACKED_296,
    UNPACKED_296,
    WIDE_312,
    WIDE_344,
    TensorLayout,
)

REQUEST_HEADER = 9  #: command 1, size 8
RESPONSE_HEADER = 8  #: size 8
DEFAULT_PORT = 50052
HELLO_ID = 14  #: the one command whose number never changes

_WIDTH = {"u8": 1, "u32": 4, "u64": 8, "version": 1}
#: A count that the payload's size decides.
REST = "*"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload.

    Attributes:
        name: as in the sources.
        format: "u8", "u32", "u64" (little-endian) or "tensor" (a record of the row's layout).
        count: how many; the name of an earlier field that holds the number
            ("request.size" for one of the request); or REST.
        doc: for the documentation and the dissector.
    """

    name: str
    format: str
    count: int | str = 1
    doc: str = ""

    def size(self, layout: TensorLayout) -> int | None:
        """Bytes, or None where a count decides."""
        if not isinstance(self.count, int):
            return None
        return self.count * (layout.size if self.format == "tensor" else _WIDTH[self.format])


@dataclass(frozen=True)
class Command:
    """One command: its request's payload and its response's (None: not answered)."""

    name: str
    request: tuple[Field, ...] = ()
    response: tuple[Field, ...] | None = ()
    doc: str = ""


@dataclass(frozen=True)
class Row:
    """One row of the table: a version or fork, and what it changes from `base`.

    Attributes:
        key: unique name of the row.
        version: what HELLO says (major, minor, patch); None before there was a HELLO.
        base: key of the row that it changes; "" for the first.
        date: when it was published.
        doc: one line on what changed.
        commands: id -> Command for those that are new or changed; None removes one.
        layout: the tensor record, if it changed.
        fork: name of the fork; "" for upstream.
    """

    key: str
    version: tuple[int, int, int] | None
    base: str
    date: str
    doc: str
    commands: dict[int, Command | None]
    layout: TensorLayout | None = None
    fork: str = ""


def _f(name: str, fmt: str, count: int | str = 1, doc: str = "") -> Field:
    return Field(name, fmt, count, doc)


_TENSOR = _f("tensor", "tensor")
_DEVICE = _f("device", "u32", doc="index of the device behind the server")
_PTR = _f("remote_ptr", "u64", doc="the server's handle of a buffer")
_OFFSET = _f("offset", "u64", doc="bytes into the tensor")
_SIZE = _f("size", "u64", doc="bytes")
_VALUE = _f("value", "u8")
_RESULT = (_f("result", "u8"),)
_DATA = _f("data", "u8", REST)
_GRAPH = (
    _f("n_nodes", "u32"),
    _f("nodes", "u64", "n_nodes", "ids of the tensors to compute"),
    _f("n_tensors", "u32"),
    _f("tensors", "tensor", "n_tensors"),
)
_MEMORY = (_f("free", "u64"), _f("total", "u64"))
_VERSION = (_f("major", "u8"), _f("minor", "u8"), _f("patch", "u8"))
_CAPS = _f("conn_caps", "u8", 24, "transport capabilities; all zero: TCP only")

ALLOC_BUFFER = Command(
    "ALLOC_BUFFER", (_SIZE,), (_PTR, _f("remote_size", "u64")), "allocate a buffer"
)
GET_ALIGNMENT = Command("GET_ALIGNMENT", (), (_f("alignment", "u64"),), "alignment of buffers")
GET_MAX_SIZE = Command("GET_MAX_SIZE", (), (_f("max_size", "u64"),), "largest buffer")
BUFFER_GET_BASE = Command("BUFFER_GET_BASE", (_PTR,), (_f("base_ptr", "u64"),), "its address")
FREE_BUFFER = Command("FREE_BUFFER", (_PTR,), (), "free a buffer")
BUFFER_CLEAR = Command("BUFFER_CLEAR", (_PTR, _VALUE), (), "fill a buffer with one byte")
SET_TENSOR = Command("SET_TENSOR", (_TENSOR, _OFFSET, _DATA), (), "write tensor data")
SET_TENSOR_HASH = Command(
    "SET_TENSOR_HASH",
    (_TENSOR, _OFFSET, _f("hash", "u64", doc="FNV-1a of the data")),
    _RESULT,
    "write tensor data from the server's cache, if it has it",
)
GET_TENSOR = Command(
    "GET_TENSOR",
    (_TENSOR, _OFFSET, _SIZE),
    (_f("data", "u8", "request.size"),),
    "read tensor data",
)
COPY_TENSOR = Command(
    "COPY_TENSOR", (_f("src", "tensor"), _f("dst", "tensor")), _RESULT, "copy within the server"
)
GRAPH_COMPUTE = Command("GRAPH_COMPUTE", _GRAPH, _RESULT, "compute a graph")
GET_DEVICE_MEMORY = Command("GET_DEVICE_MEMORY", (), _MEMORY, "free and total memory")
INIT_TENSOR = Command("INIT_TENSOR", (_TENSOR,), (), "let the backend initialise a tensor's extra")
GET_ALLOC_SIZE = Command(
    "GET_ALLOC_SIZE", (_TENSOR,), (_f("alloc_size", "u64"),), "bytes the backend needs for a tensor"
)
HELLO = Command("HELLO", (), _VERSION, "version of the server")
DEVICE_COUNT = Command("DEVICE_COUNT", (), (_f("device_count", "u32"),), "devices of the server")
GRAPH_RECOMPUTE = Command(
    "GRAPH_RECOMPUTE", (_DEVICE,), None, "compute the device's last graph again"
)
MEMSET_TENSOR = Command(
    "MEMSET_TENSOR", (_TENSOR, _OFFSET, _SIZE, _VALUE), (), "fill part of a tensor with one byte"
)
SET_TENSOR_GGUF = Command(
    "SET_TENSOR_GGUF", (_TENSOR, _OFFSET), _RESULT, "load tensor data from the server's own file"
)


def _on_device(command: Command) -> Command:
    return Command(command.name, (_DEVICE, *command.request), command.response, command.doc)


def _unanswered(command: Command) -> Command:
    return Command(command.name, command.request, None, command.doc)


_OLD_NUMBERS: dict[int, Command | None] = dict(
    enumerate(
        (
            ALLOC_BUFFER,
            GET_ALIGNMENT,
            GET_MAX_SIZE,
            BUFFER_GET_BASE,
            FREE_BUFFER,
            BUFFER_CLEAR,
            SET_TENSOR,
            GET_TENSOR,
            COPY_TENSOR,
            GRAPH_COMPUTE,
            GET_DEVICE_MEMORY,
        )
    )
)
_NEW_NUMBERS: dict[int, Command | None] = {
    7: SET_TENSOR_HASH,
    8: GET_TENSOR,
    9: COPY_TENSOR,
    10: GRAPH_COMPUTE,
    11: GET_DEVICE_MEMORY,
    12: INIT_TENSOR,
    13: GET_ALLOC_SIZE,
}

ROWS: tuple[Row, ...] = (
    Row("none-0", None, "", "2024-05-14", "first release", _OLD_NUMBERS, UNPACKED_296),
    Row("none-1", None, "none-0", "2024-05-20", "tensor records packed", {}, PACKED_292),
    Row("none-2", None, "none-1", "2024-06", "tensor records padded", {}, PACKED_296),
    Row(
        "none-3",
        None,
        "none-2",
        "2025-01-04",
        "INIT_TENSOR, GET_ALLOC_SIZE",
        {11: INIT_TENSOR, 12: GET_ALLOC_SIZE},
    ),
    Row(
        "none-4",
        None,
        "none-3",
        "2025-03-28",
        "SET_TENSOR_HASH; the numbers above it move up by one",
        _NEW_NUMBERS,
    ),
    Row("1.0.0", (1, 0, 0), "none-4", "2025-04-18", "HELLO comes first", {14: HELLO}),
    Row(
        "2.0.0",
        (2, 0, 0),
        "1.0.0",
        "2025-04-25",
        "SET_TENSOR unanswered",
        {6: _unanswered(SET_TENSOR)},
    ),
    Row(
        "3.0.0",
        (3, 0, 0),
        "2.0.0",
        "2025-10-04",
        "several devices behind one server",
        {
            0: _on_device(ALLOC_BUFFER),
            1: _on_device(GET_ALIGNMENT),
            2: _on_device(GET_MAX_SIZE),
            10: _on_device(GRAPH_COMPUTE),
            11: _on_device(GET_DEVICE_MEMORY),
            13: _on_device(GET_ALLOC_SIZE),
            15: DEVICE_COUNT,
        },
    ),
    Row(
        "3.5.0",
        (3, 5, 0),
        "3.0.0",
        "2025-11-28",
        "GRAPH_COMPUTE unanswered; GRAPH_RECOMPUTE",
        {10: _unanswered(_on_device(GRAPH_COMPUTE)), 16: GRAPH_RECOMPUTE},
    ),
    Row(
        "3.6.0",
        (3, 6, 0),
        "3.5.0",
        "2025-12-05",
        "GET_ALLOC_SIZE carries the sources",
        {
            13: Command(
                "GET_ALLOC_SIZE",
                (_DEVICE, _TENSOR, _f("srcs", "tensor", 10)),
                GET_ALLOC_SIZE.response,
                GET_ALLOC_SIZE.doc,
            )
        },
    ),
    Row(
        "4.0.0",
        (4, 0, 0),
        "3.6.0",
        "2026-04-15",
        "HELLO carries transport capabilities",
        {14: Command("HELLO", (_CAPS,), (*_VERSION, _f("padding", "u8"), _CAPS), HELLO.doc)},
    ),
    Row("5.0.0", (5, 0, 0), "4.0.0", "2026-07-29", "MEMSET_TENSOR", {17: MEMSET_TENSOR}),
    Row("5.1.0", (5, 1, 0), "5.0.0", "2026-08-18", "tensor records in graphs carry use_count", {}),
    Row(
        "6.0.0",
        (6, 0, 0),
        "5.1.0",
        "2026-08-26",
        "FREE, CLEAR, INIT and MEMSET unanswered",
        {
            4: _unanswered(FREE_BUFFER),
            5: _unanswered(BUFFER_CLEAR),
            12: _unanswered(INIT_TENSOR),
            17: _unanswered(MEMSET_TENSOR),
        },
    ),
    Row(
        "7.0.0",
        (7, 0, 0),
        "6.0.0",
        "2026-09",
        "SET_TENSOR carries cache_flag",
        {
            6: Command(
                "SET_TENSOR",
                (
                    _TENSOR,
                    _f("cache_flag", "u8", doc="1: the hash just missed, keep the data"),
                    _OFFSET,
                    _DATA,
                ),
                None,
                SET_TENSOR.doc,
            )
        },
    ),
    Row("ik-312", (3, 5, 2), "3.5.0", "2026", "12 sources", {}, WIDE_312, fork="ik_llama.cpp"),
    Row("ik-344", (3, 5, 2), "3.5.0", "2026", "16 sources", {}, WIDE_344, fork="ik_llama.cpp"),
    Row(
        "mesh-3.6",
        (3, 6, 0),
        "3.6.0",
        "2026",
        "weights from the server's own GGUF file",
        {17: SET_TENSOR_GGUF},
        fork="mesh-llm",
    ),
)

#: Not a command: the byte that Apple builds of 4.x and later exchange after HELLO when both
#: sides offered RDMA (0x2A: it is up, the TCP connection goes silent; 0: it failed).
RDMA_SYNC = "RDMA_SYNC"
RDMA_READY = 0x2A


class Shape:
    """What one dialect's framing needs to know of one command; a Command, measured.

    Attributes:
        name: of the command.
        fixed: payload bytes of its request, or -1 when they vary.
        least: the fewest payload bytes of its request.
        device_at, tensor_at, offset_at, size_at, data_at: where these fields begin in the
            payload, or -1. (For COPY_TENSOR `tensor` is the source.)
        answered: whether there is a response.
        response: payload bytes of the response, or -1 when the request's `size` tells.
        sizes: the same as a set of one.
        is_graph: the payload is a graph.
    """

    __slots__ = (
        "answered",
        "command",
        "data_at",
        "device_at",
        "fixed",
        "is_graph",
        "least",
        "name",
        "offset_at",
        "response",
        "size_at",
        "sizes",
        "tensor_at",
    )

    def __init__(self, command: Command, layout: TensorLayout) -> None:
        self.command = command
        self.name = command.name
        at: dict[str, int] = {}
        length = 0
        self.fixed = 0
        for field in command.request:
            at.setdefault(field.name, length)
            width = field.size(layout)
            if width is None:
                self.fixed = -1
            length += width or 0
        self.least = length
        if self.fixed == 0:
            self.fixed = length
        self.is_graph = "n_nodes" in at
        self.device_at = at.get("device", -1)
        self.tensor_at = at.get("tensor", at.get("src", -1))
        moves = "tensor" in at and "offset" in at
        self.offset_at = at["offset"] if moves else -1
        self.size_at = at.get("size", -1) if moves else -1
        self.data_at = at.get("data", -1)
        self.answered = command.response is not None
        widths = [field.size(layout) for field in command.response or ()]
        self.response = -1 if None in widths else sum(w or 0 for w in widths)
        self.sizes: frozenset[int] = frozenset((self.response,))


@dataclass(frozen=True)
class Dialect:
    """One row with all that it inherits."""

    row: Row
    commands: dict[int, Command]
    layout: TensorLayout

    @property
    def key(self) -> str:
        """The row's unique name."""
        return self.row.key

    @property
    def protocol(self) -> str:
        """The version as the accounts print it: "none" or "major.minor.patch"."""
        return ".".join(map(str, self.row.version)) if self.row.version else "none"

    @cached_property
    def shapes(self) -> dict[int, Shape]:
        """Measured commands by id."""
        return {i: Shape(c, self.layout) for i, c in self.commands.items()}


def _overlay(rows: tuple[Row, ...]) -> dict[str, Dialect]:
    done: dict[str, Dialect] = {}
    for row in rows:
        base = done.get(row.base)
        commands = {**(base.commands if base else {}), **row.commands}
        layout = row.layout or (base.layout if base else PACKED_296)
        kept = {i: c for i, c in sorted(commands.items()) if c is not None}
        done[row.key] = Dialect(row, kept, layout)
    return done


DIALECTS: dict[str, Dialect] = _overlay(ROWS)
UPSTREAM: tuple[Dialect, ...] = tuple(d for d in DIALECTS.values() if not d.row.fork)
LATEST: Dialect = UPSTREAM[-1]
#: Every name that some row gives to a command.
COMMAND_NAMES: frozenset[str] = frozenset(
    c.name for d in DIALECTS.values() for c in d.commands.values()
)


def without_hello() -> tuple[Dialect, ...]:
    """The dialects of builds that had no HELLO."""
    return tuple(d for d in DIALECTS.values() if d.row.version is None)


def with_hello() -> tuple[Dialect, ...]:
    """The dialects whose connections begin with HELLO, forks last."""
    return tuple(d for d in DIALECTS.values() if d.row.version is not None)


def announced(version: tuple[int, int, int]) -> tuple[Dialect, ...]:
    """The dialects that a server may speak whose HELLO says `version`, likeliest first.

    A patch or minor number that no row has is governed by the row before it; so is a major
    number above the last (the first ones begin with 1).
    """
    known = [d for d in UPSTREAM if d.row.version is not None and d.row.version <= version]
    forks = [d for d in DIALECTS.values() if d.row.fork and d.row.version == version]
    first = next(d for d in UPSTREAM if d.row.version is not None)
    return (known[-1] if known else first, *forks)

"""The version table, the tensor layouts and the op numbers as Lua tables."""

from __future__ import annotations

from datetime import date, timedelta

from rpcwire.ggml.credible import MOST_BYTES, MOST_GRAPH, MOST_SEARCHED, size_limits
from rpcwire.ggml.ops import SUFFIXES
from rpcwire.ggml.ops_table import OP_TABLES
from rpcwire.ggml.tensor import MAX_DIMS, TYPES, TensorLayout
from rpcwire.ggml.versions import (
    DEFAULT_PORT,
    DIALECTS,
    HELLO_ID,
    RDMA_READY,
    UPSTREAM,
    Dialect,
    Field,
    Shape,
)
from rpcwire.runs.roles import COMMAND_ROLE
from rpcwire.wireshark.luatext import Raw, lua

#: Ops whose suffix the results of others bear, too: whatever writes into a view of its source.
_SHARED = frozenset({"VIEW", "CPY"})
_SLACK = timedelta(days=30)  #: between ggml and llama.cpp, and for dates known to the month
_END = date(9999, 1, 1)

#: Fields that are addresses, handles or digests: shown in hexadecimal.
_HEX = frozenset(
    "id buffer src view_src data nodes remote_ptr base_ptr hash flags".split()  # noqa: SIM905
)
_KINDS = {"u8": 1, "version": 1, "u1": 1, "<u4": 4, "<i4": 4, "u32": 4, "<u8": 8, "u64": 8}


def tables() -> str:
    """Lua text that defines the tables which the dissector's code reads."""
    layouts = {d.layout: None for d in DIALECTS.values()}
    layout_at = {layout: i + 1 for i, layout in enumerate(layouts)}
    commands: dict[str, int] = {}
    rows = [_dialect(d, layout_at[d.layout], commands) for d in DIALECTS.values()]
    least, most = size_limits(tuple(DIALECTS.values()))
    lines = [
        f"local DEFAULT_PORT, HELLO_ID, RDMA_READY = {DEFAULT_PORT}, {HELLO_ID}, {RDMA_READY}",
        _table("MOST_BYTES", MOST_BYTES),
        _table("MOST_GRAPH", MOST_GRAPH),
        _table("MOST_SEARCHED", MOST_SEARCHED),
        "-- least and most payload bytes of a request, by id",
        _table("LEAST", {i: n for i, n in enumerate(least) if most[i]}),
        _table("MOST", {i: n for i, n in enumerate(most) if n}),
        "-- ggml types: name, elements and bytes of a block",
        _table("TYPES", {t.id: [t.name, t.block, t.size] for t in TYPES}),
        "-- op names by number, oldest build first; number 0 comes first",
        _list("OPS", [lua(table.names) for table in OP_TABLES]),
        "-- how ggml names the results of some ops",
        _table("SUFFIXES", {k: v for k, v in _suffixes().items() if v not in _SHARED}),
        "-- roles that a command alone tells",
        _table("ROLES", COMMAND_ROLE),
        "-- tensor records",
        _list("LAYOUTS", [_layout(layout) for layout in layouts]),
        "-- commands as they are in one or more versions",
        _list("COMMANDS", list(commands)),
        "-- versions and forks",
        _list("DIALECTS", rows),
        "-- every field of a payload and of a tensor record",
        _list("PAYLOAD_FIELDS", [lua(f) for f in _payload_fields()]),
        _list("TENSOR_FIELDS", [lua(f) for f in _tensor_fields()]),
    ]
    return "\n".join(lines) + "\n"


def _suffixes() -> dict[str, str]:
    return {suffix.decode().strip(" ()"): op for suffix, op in SUFFIXES.items()}


def _table(name: str, value: object) -> str:
    return f"local {name} = {lua(value)}"


def _list(name: str, rows: list[str]) -> str:
    return f"local {name} = {{\n" + "".join(f"  {row},\n" for row in rows) + "}"


def _layout(layout: TensorLayout) -> str:
    fields = [[n, _KINDS.get(f, 0), c] for n, f, c in layout.fields if n != "_hole"]
    at = layout.at
    return lua(
        {
            "name": layout.name,
            "size": layout.size,
            "fields": [[*f, at[str(f[0])]] for f in fields],
            "at": {n: at[n] for n in ("ne", "nb", "op", "name", "flags", "src", "view_src")},
            "sources": layout.sources,
            "dims": MAX_DIMS,
        }
    )


def _command(shape: Shape, layout_at: int) -> str:
    command = shape.command

    def fields(group: tuple[Field, ...]) -> list[list[object]]:
        return [[f.name, 0 if f.format == "tensor" else _KINDS[f.format], f.count] for f in group]

    return lua(
        {
            "name": command.name,
            "doc": command.doc,
            "request": fields(command.request),
            "response": fields(command.response) if command.response is not None else None,
            "fixed": shape.fixed,
            "least": shape.least,
            "answered": shape.answered,
            "answer": shape.response,
            "device_at": shape.device_at,
            "tensor_at": shape.tensor_at,
            "offset_at": shape.offset_at,
            "size_at": shape.size_at,
            "data_at": shape.data_at,
            "graph": shape.is_graph,
            "layout": Raw(f"LAYOUTS[{layout_at}]"),
        }
    )


def _dialect(dialect: Dialect, layout_at: int, commands: dict[str, int]) -> str:
    row = dialect.row
    numbers = {}
    for i, shape in dialect.shapes.items():
        at = commands.setdefault(_command(shape, layout_at), len(commands) + 1)
        numbers[i] = Raw(f"COMMANDS[{at}]")
    first, last = _op_tables(dialect)
    return lua(
        {
            "key": row.key,
            "protocol": dialect.protocol,
            "version": row.version,
            "fork": row.fork,
            "reuses": any(s.name == "GRAPH_RECOMPUTE" for s in dialect.shapes.values()),
            "layout": Raw(f"LAYOUTS[{layout_at}]"),
            "ops": [first + 1, last + 1],
            "commands": numbers,
        }
    )


def _day(text: str) -> date:
    parts = [int(p) for p in text.split("-")] + [1, 1]
    return date(parts[0], parts[1], parts[2])


def _op_tables(dialect: Dialect) -> tuple[int, int]:
    """First and last index in OP_TABLES of those that builds of a version may have used."""
    since = _day(dialect.row.date)
    later = [_day(d.row.date) for d in UPSTREAM if _day(d.row.date) > since]
    until = _END if dialect.row.fork or not later else min(later)
    starts = [_day(table.date) for table in OP_TABLES]
    first = max((i for i, day in enumerate(starts) if day <= since - _SLACK), default=0)
    last = max((i for i, day in enumerate(starts) if day <= until + _SLACK), default=0)
    return first, last


def _payload_fields() -> list[list[object]]:
    """[name, width, hex, doc] of each distinct payload field, records aside."""
    found: dict[str, list[object]] = {}
    for dialect in DIALECTS.values():
        for command in dialect.commands.values():
            for field in (*command.request, *(command.response or ())):
                if field.format != "tensor":
                    width = _KINDS[field.format] if isinstance(field.count, int) else 0
                    if field.count != 1 and field.format == "u8":
                        width = 0
                    elif field.count != 1:
                        width = _KINDS[field.format]
                    row = [field.name, width, field.name in _HEX, field.doc]
                    found.setdefault(field.name, row)
    return list(found.values())


def _tensor_fields() -> list[list[object]]:
    """[name, width (0: text), hex] of each distinct field of a tensor record."""
    found: dict[str, list[object]] = {}
    for dialect in DIALECTS.values():
        for name, fmt, _ in dialect.layout.fields:
            if name != "_hole":
                signed = fmt == "<i4" and name != "flags"
                found.setdefault(name, [name, _KINDS.get(fmt, 0), name in _HEX, signed])
    return list(found.values())

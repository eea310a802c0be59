"""docs/protocol.md: the protocol as the version table has it, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rpcwire.ggml.ops_table import EDITS, FIRST, OP_TABLES, Edit
from rpcwire.ggml.tensor import TYPES, TensorLayout
from rpcwire.ggml.versions import (
    DEFAULT_PORT,
    DIALECTS,
    LATEST,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    REST,
    ROWS,
    Command,
    Dialect,
    Field,
    Row,
)

_TOP = f"""\
# The protocol, as this project knows it

Generated from the tables in `rpcwire/ggml/` by `make docs`; do not edit. To add a version, add a
row to `ROWS` in `rpcwire/ggml/versions.py` and run it again.

ggml RPC carries llama.cpp's tensors and graphs between a client (llama-server and other programs)
and workers (`ggml-rpc-server`) over TCP, by default on port {DEFAULT_PORT}. All numbers are
little-endian, nothing is padded.

| message | bytes |
|---|---|
| request, {REQUEST_HEADER} + payload | command (1), size of the payload (8), payload |
| response, {RESPONSE_HEADER} + payload | size of the payload (8), payload; if the version answers |

Requests and responses of a connection pair strictly in order.
"""


def protocol_page() -> str:
    """The page as Markdown."""
    parts = [
        _TOP,
        "## Versions\n",
        *_table(("version", "date", "what changed", "changed commands"), map(_version, ROWS)),
        "\n## Commands\n",
        "Sizes in bytes; `a | b` where versions differ, the newest last. *—*: not answered.\n",
        *_table(("id", "name", "does", "request", "response"), _commands()),
        f"\n## Payloads of version {LATEST.protocol}\n",
        *_payloads(LATEST),
        "\n## Tensor records\n",
        *_records(),
        "\n## Types\n",
        "A block of `elements` takes `bytes`.\n",
        *_table(
            ("id", "name", "elements", "bytes"), ((t.id, t.name, t.block, t.size) for t in TYPES)
        ),
        "\n## Op numbers\n",
        "The version does not tell them: they move whenever an op is added in the middle of",
        f"`enum ggml_op`. Builds of {OP_TABLES[0].date} had {len(FIRST)}, numbered from 0 on:",
        ", ".join(FIRST) + ".\n",
        *_table(("date", "after", "added", "removed"), map(_edit, EDITS)),
    ]
    return "\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"


def _version(row: Row) -> tuple[object, ...]:
    known = DIALECTS[row.base].commands if row.base else {}
    changes = []
    for number, command in sorted(row.commands.items()):
        if command is None:
            changes.append(f"no {number}")
        elif number not in known or known[number].name != command.name:
            changes.append(f"{number} = {command.name}")
        else:
            changes.append(command.name)
    name = row.key if not row.fork else f"{row.key} ({row.fork}, says {_dotted(row.version)})"
    layout = f" ({row.layout.name})" if row.layout and row.base else ""
    return name, row.date, row.doc + layout, ", ".join(changes)


def _dotted(version: tuple[int, int, int] | None) -> str:
    return ".".join(map(str, version)) if version else "nothing"


def _commands() -> Iterator[tuple[object, ...]]:
    names = {c.name: None for d in DIALECTS.values() for c in d.commands.values()}
    rows = [(_numbers(n), n, *_described(n)) for n in names]
    yield from sorted(rows, key=lambda row: (int(row[0].split()[-1]), row[1]))


def _having(name: str) -> Iterator[tuple[Dialect, int, Command]]:
    for dialect in DIALECTS.values():
        for number, command in dialect.commands.items():
            if command.name == name:
                yield dialect, number, command


def _numbers(name: str) -> str:
    return " | ".join(dict.fromkeys(str(number) for _, number, _ in _having(name)))


def _described(name: str) -> tuple[str, str, str]:
    requests, responses, doc = dict[str, None](), dict[str, None](), ""
    for dialect, _, command in _having(name):
        if dialect.row.fork and any(not d.row.fork for d, _, _ in _having(name)):
            continue
        doc = command.doc
        requests[_size(command.request, dialect.layout)] = None
        answer = command.response
        responses["—" if answer is None else _size(answer, dialect.layout)] = None
    return doc, " | ".join(requests), " | ".join(responses)


def _size(fields: tuple[Field, ...], layout: TensorLayout) -> str:
    fixed, rest = 0, ""
    for field in fields:
        width = field.size(layout)
        if width is not None:
            fixed += width
            continue
        unit = Field(field.name, field.format).size(layout)
        count = "data" if field.count in (REST, "request.size") else str(field.count)
        rest += f" + {count}" if unit == 1 else f" + {unit}·{count}"
    return f"{fixed}{rest}" if fixed else rest.removeprefix(" + ") or "0"


def _payloads(dialect: Dialect) -> Iterator[str]:
    for number, command in dialect.commands.items():
        yield f"### {number} {command.name}\n"
        yield f"{command.doc[:1].upper()}{command.doc[1:]}.\n"
        yield f"- request: {_listed(command.request, dialect.layout)}"
        answer = command.response
        yield f"- response: {'none' if answer is None else _listed(answer, dialect.layout)}\n"


#: Counts in words.
_WORDS: dict[int | str, str] = {REST: "the rest", "request.size": "as asked for"}


def _listed(fields: tuple[Field, ...], layout: TensorLayout) -> str:
    if not fields:
        return "empty"
    parts = []
    for field in fields:
        width = field.size(layout)
        unit = Field(field.name, field.format).size(layout)
        times = (
            "" if field.count == 1 else f" × {'the rest' if field.count == REST else field.count}"
        )
        size = f"{unit}{times}" if width is None or field.count != 1 else f"{width}"
        parts.append(f"`{field.name}` ({size}{'; ' + field.doc if field.doc else ''})")
    return ", ".join(parts)


def _records() -> Iterator[str]:
    layouts = list(dict.fromkeys(d.layout for d in DIALECTS.values()))
    names = dict.fromkeys(n for layout in layouts for n, _, _ in layout.fields if n != "_hole")

    def cell(layout: TensorLayout, name: str) -> str:
        found = next(((f, c) for n, f, c in layout.fields if n == name), None)
        if found is None:
            return ""
        fmt, count = found
        return f"{layout.at[name]}: {fmt.strip('<')}{f' × {count}' if count > 1 else ''}"

    yield "Offset and kind of each field; `u`: unsigned, `i`: signed, `S`: text, then the bytes.\n"
    yield from _table(
        ("field", *(layout.name for layout in layouts)),
        ((name, *(cell(layout, name) for layout in layouts)) for name in names),
    )


def _edit(edit: Edit) -> tuple[object, ...]:
    return edit.date, edit.after, ", ".join(edit.add), ", ".join(edit.remove)

"""Blocks of compute graphs: the table in data/graphs.toml, read once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rpcwire.errors import RpcwireError


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a block: an operation and what it needs.

    Attributes:
        name: what later lines call the result. op: word of the operation.
        sources: names of lines, `.layer` and `@global` weights, `$inputs`, `#caches`.
        target: the destination when it is not a source itself, or "".
        size: name of its size, or "". up, down: roles, or "" for the usual ones.
        condition: flag or weight that must exist, or "". repeat: name of a count, or "".
    """

    name: str
    op: str
    sources: tuple[str, ...]
    target: str = ""
    size: str = ""
    up: str = ""
    down: str = ""
    condition: str = ""
    repeat: str = ""


def parse_line(text: str) -> Line:
    """Parse one line of a block (the grammar is at the top of graphs.toml)."""
    rest, _, repeat = text.partition(" * ")
    rest, _, condition = rest.partition(" ? ")
    rest, _, size = rest.partition(" | ")
    name, equals, body = rest.partition(" = ")
    words = body.split()
    if not equals or not words:
        raise RpcwireError(f"graphs.toml: {text!r} is not `name = op source ...`")
    sizes = size.split()
    return Line(
        name=name.strip(),
        op=words[0],
        sources=tuple(word for word in words[1:] if not word.startswith(">")),
        target=next((word[1:] for word in words[1:] if word.startswith(">")), ""),
        size=sizes[0] if sizes else "",
        up=sizes[1] if len(sizes) > 1 else "",
        down=sizes[2] if len(sizes) > 2 else "",
        condition=condition.strip(),
        repeat=repeat.strip(),
    )


@cache
def _table() -> dict[str, tuple[Line, ...]]:
    source = resources.files("rpcwire.data").joinpath("graphs.toml").read_text("utf-8")
    blocks: dict[str, tuple[Line, ...]] = {}

    def walk(path: str, value: object) -> None:
        if isinstance(value, str):
            lines = (line.strip() for line in value.splitlines())
            blocks[path] = tuple(parse_line(line) for line in lines if line)
        elif isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{path}.{key}" if path else key, inner)

    walk("", tomllib.loads(source))
    return blocks


def block(name: str) -> tuple[Line, ...]:
    """Lines of a block such as "core.rows.flash.lines".

    Raises:
        RpcwireError: the table has no such block.
    """
    try:
        return _table()[name]
    except KeyError:
        raise RpcwireError(f"graphs.toml has no block {name}") from None

"""The Python API as a page, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import rpcwire
from rpcwire import analysis, frames, scapy

_HEAD = """\
# Python reference

Generated from signatures and docstrings by `make docs`; do not edit. [api.md](api.md) shows it at
work. What is not listed here may change in any version.
"""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_LISTS = ("Args", "Attributes", "Raises")
#: "name: what it is", or "a, b, c: what they are".
_ENTRY = re.compile(r"^((?:\*{0,2}\w+(?:, )?)+): (.*)$")


def api_page() -> str:
    """The text of docs/reference.md."""
    parts = [_HEAD, "## rpcwire\n"]
    parts += [_part(name, getattr(rpcwire, name)) for name in rpcwire.__all__ if name[0] != "_"]
    parts.append("## rpcwire.analysis\n\nWhat an `Analysis` holds; times are as its name says.\n")
    parts += [
        _part(name, getattr(analysis, name))
        for name in analysis.__all__
        if name not in rpcwire.__all__ and inspect.isclass(getattr(analysis, name))
    ]
    parts.append("## rpcwire.frames\n")
    parts += [_part(name, getattr(frames, name)) for name in ("FrameReader", "FrameRow")]
    parts.append("## rpcwire.scapy\n")
    parts += [_part(name, getattr(scapy, name)) for name in ("layers", "Layers")]
    return "\n".join(parts)


def _part(name: str, thing: Any) -> str:
    lines = [f"### {name}\n", *_signature(name, thing), *_prose(inspect.getdoc(thing) or "")]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            plain = inspect.isfunction(value) or isinstance(value, property)
            if plain and not member.startswith("_"):
                lines += _member(name, member, value)
    return "\n".join(lines)


def _member(owner: str, name: str, value: Any) -> Iterator[str]:
    called = "" if isinstance(value, property) else _arguments(value)
    yield f"#### `{owner}.{name}{called}`\n"
    yield from _prose(inspect.getdoc(value) or "")


def _signature(name: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing) and issubclass(thing, Exception):
        yield f"```python\nclass {name}({thing.__bases__[0].__name__})\n```\n"
    elif is_dataclass(thing):
        yield "```python"
        yield f"class {name}:"
        for f in fields(thing):
            default = "" if f.default is MISSING else f" = {f.default!r}"
            yield f"    {f.name}: {f.type}{default}"
        yield "```\n"
    else:
        word = "class " if inspect.isclass(thing) else ""
        yield f"```python\n{word}{name}{_arguments(thing)}\n```\n"


def _arguments(thing: Any) -> str:
    """The signature as it is written; one line an argument where it is long."""
    signature = inspect.signature(thing)
    kept = [p for p in signature.parameters.values() if p.name != "self"]
    whole = str(signature.replace(parameters=kept))
    whole = re.sub(r"(: |-> )'([^']*)'", r"\1\2", whole)
    if len(whole) < 80:
        return whole
    arguments, _, returned = whole[1:].rpartition(") ->")
    parts = re.split(r", (?=\*|\w+:)", arguments)
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f") ->{returned}"


def _prose(doc: str) -> Iterator[str]:
    """A docstring of Google style as Markdown."""
    for block in re.split(r"\n\s*\n", doc):
        first, _, rest = block.partition("\n")
        section = _SECTION.match(first)
        if section is None:
            yield f"{block}\n"
            continue
        yield f"**{section[1]}**\n"
        text = textwrap.dedent(rest)
        yield from _entries(text) if section[1] in _LISTS else (text,)
        yield ""


def _entries(text: str) -> Iterator[str]:
    """Entries of a section as a list; a line that begins none belongs to the one before."""
    joined: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") or (joined and not _ENTRY.match(line)):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    for line in joined:
        entry = _ENTRY.match(line)
        names = ", ".join(f"`{n}`" for n in entry[1].split(", ")) if entry else ""
        yield f"- {names}: {entry[2]}" if entry else line

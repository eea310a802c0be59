"""Python values as Lua literals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_WORDS = {None: "nil", True: "true", False: "false"}
_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n"}


class Raw(str):
    """Lua code that stands for itself."""

    __slots__ = ()


def lua(value: object) -> str:
    """A Lua literal; None becomes nil, sequences and mappings become tables.

    Raises:
        TypeError: for a value that has no literal.
    """
    if isinstance(value, str):
        return str(value) if isinstance(value, Raw) else f'"{value.translate(_ESCAPES)}"'
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {lua(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "{" + ", ".join(map(lua, value)) + "}"
    raise TypeError(f"no Lua literal for {type(value).__name__}")


def _key(key: object) -> str:
    return key if isinstance(key, str) and key.isidentifier() else f"[{lua(key)}]"

"""Typed look-ups in GGUF metadata."""

from __future__ import annotations

from rpcwire.errors import ModelError
from rpcwire.models.header import Value


class Metadata:
    """Typed look-ups below the architecture's prefix; wrong types raise ModelError."""

    def __init__(self, values: dict[str, Value], arch: str) -> None:
        self.values = values
        self.arch = arch

    def raw(self, key: str) -> Value | None:
        """Value of `<arch>.<key>`, or None."""
        return self.values.get(f"{self.arch}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """One integer; the largest where the file has one per layer."""
        value = self.raw(key)
        if isinstance(value, tuple):
            value = max((item for item in value if isinstance(item, int)), default=None)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            raise ModelError(f"{self.arch}.{key} is {_show(value)}: the model cannot be read")
        return value

    def per_layer(self, key: str, layers: int, default: int) -> tuple[int, ...]:
        """One integer a layer; a single one holds for all."""
        value = self.raw(key)
        if isinstance(value, tuple):
            if len(value) < layers or not all(isinstance(item, int) for item in value):
                raise ModelError(f"{self.arch}.{key} has {len(value)} values for {layers} layers")
            return tuple(int(item) for item in value[:layers])
        return (self.integer(key, default),) * layers


def _show(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]

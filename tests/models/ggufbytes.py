"""Builds GGUF headers in memory, for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def value(item: object, order: str) -> bytes:
    """Type and bytes of one metadata value."""
    if isinstance(item, bool):
        return struct.pack(order + "I?", 7, item)
    if isinstance(item, int):
        return struct.pack(order + "IQ", 10, item)
    if isinstance(item, float):
        return struct.pack(order + "If", 6, item)
    if isinstance(item, str):
        return struct.pack(order + "I", 8) + text(item.encode(), order)
    assert isinstance(item, Sequence)
    if item and isinstance(item[0], str):
        body = b"".join(text(one.encode(), order) for one in item)
        return struct.pack(order + "IIQ", 9, 8, len(item)) + body
    return struct.pack(f"{order}IIQ{len(item)}i", 9, 5, len(item), *item)


def text(data: bytes, order: str) -> bytes:
    """A length and the bytes of a string."""
    return struct.pack(order + "Q", len(data)) + data


def gguf(
    metadata: Mapping[str, object],
    tensors: Sequence[tuple[str, Sequence[int], int, int]] = (),
    order: str = "<",
    version: int = 3,
) -> bytes:
    """A header: metadata and tensors as (name, shape, type, offset)."""
    head = b"GGUF" + struct.pack(order + "IQQ", version, len(tensors), len(metadata))
    for key, item in metadata.items():
        head += text(key.encode(), order) + value(item, order)
    for name, shape, kind, offset in tensors:
        head += text(name.encode(), order) + struct.pack(order + "I", len(shape))
        head += struct.pack(f"{order}{len(shape)}QIQ", *shape, kind, offset)
    return head

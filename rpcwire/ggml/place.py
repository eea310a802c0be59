"""A packet of one of several files, as one number: packet numbers begin again in each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame

#: Bits of the packet number; the file's index stands above them.
_BITS = 48


def place(frame: Frame) -> int:
    """Where a frame begins: file, then packet; sorts in the order of both."""
    return frame.file << _BITS | frame.number


def end_place(frame: Frame) -> int:
    """Where a frame was complete, if in the file that it began in."""
    return frame.file << _BITS | frame.end_number


def placed(where: int) -> tuple[int, int]:
    """Index of the file, and number of the packet in it."""
    return where >> _BITS, where & (1 << _BITS) - 1

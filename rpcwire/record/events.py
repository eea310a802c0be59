"""What the relay tells its writer: one small header an event, payload behind it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What happened on a connection; `side` 0 is the client, 1 the worker."""

    OPEN = 1  #: a client connected; payload: "client\\nworker" as address\\tport
    READY = 2  #: the worker accepted
    DATA = 3  #: `side` sent bytes
    FIN = 4  #: `side` ended its direction
    RESET = 5  #: `side` broke the connection off
    RTT = 6  #: payload: round-trip time to `side` in us, 4 bytes


_HEADER = struct.Struct("<BBIQI")


@dataclass(slots=True)
class Event:
    """One event. `time_ns` is when the relay saw it."""

    kind: Kind
    side: int
    connection: int
    time_ns: int
    payload: bytes


def encode_header(kind: Kind, side: int, connection: int, time_ns: int, size: int) -> bytes:
    """The bytes in front of an event's payload."""
    return _HEADER.pack(kind, side, connection, time_ns, size)


class EventParser:
    """Cuts events from bytes in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Events that these bytes complete."""
        data = self._rest + chunk if self._rest else chunk
        at = 0
        while at + _HEADER.size <= len(data):
            kind, side, connection, time_ns, size = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + size
            if end > len(data):
                break
            payload = data[at + _HEADER.size : end]
            yield Event(Kind(kind), side, connection, time_ns, payload)
            at = end
        self._rest = data[at:]

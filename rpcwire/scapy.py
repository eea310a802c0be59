"""ggml RPC as scapy layers, made from the version table, for people who craft packets.

    from scapy.all import IP, TCP, rdpcap
    from rpcwire.scapy import layers
    rpc = layers()                       # the latest version; layers("3.6.0") for another
    rpc.bind()                           # TCP on port 50052
    IP(dst="192.0.2.1") / TCP(dport=50052) / rpc.request("HELLO")

A request is `Request(cmd) / payload`; sizes and counts are filled in when they are left out. The
payload of a response depends on what was asked: `rpc.response("GET_ALIGNMENT", alignment=64)`
makes one, `rpc.read_response("GET_ALIGNMENT", data)` reads one. Needs scapy (`rpcwire[scapy]`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from scapy.config import conf
from scapy.fields import (
    ByteEnumField,
    ByteField,
    Field,
    FieldLenField,
    FieldListField,
    LEIntEnumField,
    LEIntField,
    LELongField,
    LESignedIntField,
    PacketField,
    PacketListField,
    StrField,
    StrFixedLenField,
    XLEIntField,
    XLELongField,
)
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_layers, split_layers

from rpcwire.errors import UsageError
from rpcwire.ggml.tensor import TYPES, TensorLayout
from rpcwire.ggml.versions import (
    DEFAULT_PORT,
    DIALECTS,
    LATEST,
    RESPONSE_HEADER,
    REST,
    Dialect,
)
from rpcwire.ggml.versions import Field as Row

_TYPE_NAMES = {t.id: t.name for t in TYPES}
#: Records in a list; scapy's own limit is 100.
_MOST = 1 << 20
#: Counts of bytes that end with the payload.
_TO_THE_END = (REST, "request.size")
_HANDLES = frozenset(("id", "buffer", "src", "view_src", "data", "remote_ptr", "base_ptr", "hash"))


class _Message(Packet):  # type: ignore[misc,unused-ignore]
    """What messages have in common: a size that says where the next one begins."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the size."""
        if self.size is None:
            pkt = pkt[:-8] + struct.pack("<Q", len(pay))
        return bytes(pkt + pay)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Split this message's payload from what follows it."""
        return s[: self.size], s[self.size :]


class _Part(Packet):  # type: ignore[misc,unused-ignore]
    """A part of a payload; nothing is layered on it."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """All that follows belongs to somebody else."""
        return b"", s


def _class(name: str, base: type[Packet], doc: str, fields: list[Any]) -> type[Packet]:
    made: type[Packet] = type(
        name, (base,), {"__doc__": doc, "name": name, "fields_desc": fields, "__module__": __name__}
    )
    return made


def _number(name: str, width: str) -> Any:
    if width in ("<u8", "u64"):
        return (XLELongField if name in _HANDLES else LELongField)(name, 0)
    if width == "<i4":
        return (XLEIntField if name == "flags" else LESignedIntField)(name, 0)
    if width in ("<u4", "u32"):
        return LEIntField(name, 0)
    return ByteField(name, 0)


def _fixed(count: int) -> Callable[[Packet], int]:
    return lambda _: count


def _repeated(name: str, width: str, count: int) -> Any:
    zeros: list[Any] = [0] * count
    return FieldListField(name, zeros, _number(name, width), count_from=_fixed(count))


@cache
def tensor_class(layout: TensorLayout) -> type[Packet]:
    """The layer of a tensor record."""
    fields: list[Any] = []
    for name, fmt, count in layout.fields:
        if fmt.startswith("S"):
            # "name" is taken: every scapy packet has one.
            fields.append(StrFixedLenField("tensor_name", b"", length=int(fmt[1:])))
        elif fmt == "u1":
            fields.append(StrFixedLenField("hole", bytes(count), length=count))
        elif name == "type":
            fields.append(LEIntEnumField(name, 0, _TYPE_NAMES))
        elif count > 1:
            fields.append(_repeated(name, fmt, count))
        else:
            fields.append(_number(name, fmt))
    return _class("RpcTensor", _Part, f"A tensor record, {layout.name}.", fields)


def _following(length: str) -> Callable[[Packet], int]:
    return lambda packet: int(getattr(packet, length))


def _fields(rows: tuple[Row, ...], layout: TensorLayout) -> list[Any]:
    counts = {row.count: row for row in rows if isinstance(row.count, str)}
    made: list[Any] = []
    tensor = tensor_class(layout)
    for row in rows:
        count = row.count
        if row.name in counts:
            made.append(FieldLenField(row.name, None, fmt="<I", count_of=counts[row.name].name))
        elif count in _TO_THE_END:
            made.append(StrField(row.name, b""))
        elif isinstance(count, str):
            there = _following(count)
            if row.format == "tensor":
                made.append(
                    PacketListField(row.name, [], tensor, count_from=there, max_count=_MOST)
                )
            else:
                item = _number(row.name, row.format)
                made.append(FieldListField(row.name, [], item, count_from=there, max_count=_MOST))
        elif row.format == "tensor" and count == 1:
            made.append(PacketField(row.name, tensor(), tensor))
        elif row.format == "tensor":
            several: list[Any] = [tensor() for _ in range(count)]
            number: int = count
            made.append(PacketListField(row.name, several, tensor, count_from=_fixed(number)))
        elif count > 1:
            made.append(StrFixedLenField(row.name, bytes(count), length=count))
        else:
            made.append(_number(row.name, row.format))
    return made


class Layers:
    """The layers of one version.

    Attributes:
        dialect: its row of the table.
        Request, Response: headers. Requests, Responses: what a TCP segment of whole messages holds.
        Tensor: the tensor record.
        requests, responses: payload classes by command name.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.Tensor = tensor_class(dialect.layout)
        names = {i: c.name for i, c in dialect.commands.items()}
        self._ids = {name: i for i, name in names.items()}
        size = LELongField("size", None)
        self.Request = _class(
            "RpcRequest", _Message, "A request's header.", [ByteEnumField("cmd", 0, names), size]
        )
        self.Response = _class("RpcResponse", _Message, "A response's header.", [size])
        self.requests: dict[str, type[Packet]] = {}
        self.responses: dict[str, type[Packet]] = {}
        for number, command in dialect.commands.items():
            title = "".join(word.capitalize() for word in command.name.split("_"))
            asked = _fields(command.request, dialect.layout)
            payload = _class(f"Rpc{title}", _Part, f"{command.name}: {command.doc}.", asked)
            self.requests[command.name] = payload
            if asked:
                bind_layers(self.Request, payload, cmd=number)
            if command.response is not None:
                answer = _fields(command.response, dialect.layout)
                self.responses[command.name] = _class(
                    f"Rpc{title}Response", _Part, f"The answer to {command.name}.", answer
                )
        self.Requests, self.Responses = (
            _class(f"{one.__name__}s", Packet, "Messages of a segment.", [_messages(one)])
            for one in (self.Request, self.Response)
        )

    def _id(self, command: str) -> int:
        if command not in self._ids:
            known = ", ".join(self._ids)
            raise UsageError(f"{self.dialect.key} has no command {command!r}, only {known}")
        return self._ids[command]

    def request(self, command: str, **fields: Any) -> Packet:
        """A request with its header; fields as in the protocol's table."""
        header = self.Request(cmd=self._id(command))
        payload = self.requests[command]
        return header / payload(**fields) if payload.fields_desc else header

    def response(self, command: str, **fields: Any) -> Packet:
        """A response with its header.

        Raises:
            UsageError: the version has no such command, or does not answer it.
        """
        self._id(command)
        if command not in self.responses:
            raise UsageError(f"{command} is not answered in {self.dialect.key}")
        payload = self.responses[command]
        return self.Response() / payload(**fields) if payload.fields_desc else self.Response()

    def read_request(self, data: bytes) -> Packet:
        """The request that `data` begins with."""
        return self.Request(data)

    def read_response(self, command: str, data: bytes) -> Packet:
        """The response to `command` that `data` begins with."""
        self._id(command)
        size = int.from_bytes(data[:RESPONSE_HEADER], "little")
        header = self.Response(data[:RESPONSE_HEADER])
        payload = self.responses.get(command)
        rest = data[RESPONSE_HEADER : RESPONSE_HEADER + size]
        if payload is None or not payload.fields_desc or not rest:
            return header / conf.raw_layer(rest) if rest else header
        return header / payload(rest)

    def bind(self, port: int = DEFAULT_PORT) -> None:
        """Have scapy dissect TCP on a port with these layers, in place of any bound before."""
        for bound in _BOUND.pop(port, ()):
            split_layers(TCP, bound[0], **bound[1])
        pairs: tuple[tuple[type[Packet], dict[str, int]], ...] = (
            (self.Requests, {"dport": port}),
            (self.Responses, {"sport": port}),
        )
        for upper, match in pairs:
            bind_layers(TCP, upper, **match)
        _BOUND[port] = pairs


_BOUND: dict[int, tuple[tuple[type[Packet], dict[str, int]], ...]] = {}


def _messages(one: type[Packet]) -> Field[Any, Any]:
    return PacketListField("messages", [], one, max_count=_MOST)


@cache
def layers(version: str = LATEST.key) -> Layers:
    """The layers of a version or fork, by the key of its row ("7.0.0", "none-4", "ik-312").

    Raises:
        UsageError: no row has that key.
    """
    if version not in DIALECTS:
        raise UsageError(f"no protocol version {version!r}; there are {', '.join(DIALECTS)}")
    return Layers(DIALECTS[version])


layers().bind()

__all__ = ["Layers", "layers", "tensor_class"]

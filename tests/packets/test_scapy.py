"""The scapy layers rebuild every real message byte for byte, in every version."""

from __future__ import annotations

import pytest

from rpcwire.errors import UsageError
from rpcwire.ggml.frame import UP, Frame
from rpcwire.ggml.versions import DIALECTS
from tests.runs.recorded import recorded

pytest.importorskip("scapy")

from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Raw

from rpcwire.scapy import layers


def payload_of(frame: Frame) -> bytes | None:
    """The payload where the frame kept it whole."""
    size = frame.size - (9 if frame.direction == UP else 8)
    if frame.graph is not None:
        return frame.graph.raw
    if len(frame.head) == size:
        return frame.head
    if frame.content is None:
        return None
    return frame.head[: size - len(frame.content)] + frame.content


def rebuilt(packet: Packet) -> bytes:
    """The bytes of a dissected packet, made anew from its fields."""
    packet.clear_cache()
    return bytes(packet)


@pytest.mark.parametrize(
    "name", ["v2.0.0-llama-bench", "v3.6.1-llama-bench", "v7.0-output-local", "v7.0-ssh-tunnel"]
)
def test_real_messages_survive(name: str) -> None:
    _, frames, _ = recorded(name)
    seen: set[tuple[str, int]] = set()
    for frame in frames:
        payload = payload_of(frame)
        kind = frame.command, frame.direction
        if payload is None or (kind in seen and len(payload) > 4096):
            continue
        seen.add(kind)
        rpc = layers(frame.connection.layout.key)
        size = len(payload).to_bytes(8, "little")
        if frame.direction == UP:
            number = next(i for i, c in rpc.dialect.commands.items() if c.name == frame.command)
            data = bytes([number]) + size + payload
            packet = rpc.read_request(data)
            if payload:
                assert type(packet.payload) is rpc.requests[frame.command]
        else:
            data = size + payload
            packet = rpc.read_response(frame.command, data)
        assert not packet.haslayer(Raw)
        assert rebuilt(packet) == data
    assert {c for c, _ in seen} >= {"HELLO", "SET_TENSOR", "GET_TENSOR", "GRAPH_COMPUTE"}


def test_fields_read_as_the_frame_does() -> None:
    _, frames, _ = recorded("v7.0-output-local")
    rpc = layers("7.0.0")
    graph = next(f for f in frames if f.graph is not None)
    assert graph.graph is not None
    raw = graph.graph.raw
    packet = rpc.read_request(bytes([10]) + len(raw).to_bytes(8, "little") + raw)
    assert packet.nodes == graph.graph.nodes.tolist()
    assert [t.id for t in packet.tensors] == graph.graph.tensors["id"].tolist()
    assert packet.n_tensors == len(graph.graph.tensors)
    assert packet.tensors[3].ne == graph.graph.tensors["ne"][3].tolist()


@pytest.mark.parametrize("version", DIALECTS)
def test_every_command_builds_with_the_size_in_the_table(version: str) -> None:
    rpc = layers(version)
    for shape in DIALECTS[version].shapes.values():
        request = bytes(rpc.request(shape.name))
        assert len(request) == 9 + shape.least
        assert int.from_bytes(request[1:9], "little") == shape.least
        if shape.answered and shape.response >= 0:
            assert len(bytes(rpc.response(shape.name))) == 8 + shape.response


def test_counts_are_filled_in() -> None:
    rpc = layers("7.0.0")
    tensors = [rpc.Tensor(id=1, tensor_name=b"a"), rpc.Tensor(id=2, tensor_name=b"b")]
    data = bytes(rpc.request("GRAPH_COMPUTE", nodes=[2], tensors=tensors))
    read = rpc.read_request(data)
    assert (read.n_nodes, read.n_tensors, read.nodes) == (1, 2, [2])
    assert read.tensors[1].tensor_name.rstrip(b"\0") == b"b"


def test_a_segment_on_the_default_port_holds_messages() -> None:
    rpc = layers()
    rpc.bind()
    data = bytes(rpc.request("DEVICE_COUNT")) + bytes(rpc.request("FREE_BUFFER", remote_ptr=7))
    segment = IP(bytes(IP() / TCP(sport=40000, dport=50052) / data))
    both = segment[rpc.Requests].messages
    assert [m.sprintf("%cmd%") for m in both] == ["DEVICE_COUNT", "FREE_BUFFER"]
    assert both[1].remote_ptr == 7
    answer = IP(bytes(IP() / TCP(sport=50052, dport=40000) / rpc.response("DEVICE_COUNT")))
    assert answer[rpc.Responses].messages[0].size == 4


def test_what_a_version_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match=r"no protocol version '9'.*7\.0\.0"):
        layers("9")
    with pytest.raises(UsageError, match=r"none-0 has no command 'HELLO'"):
        layers("none-0").request("HELLO")
    with pytest.raises(UsageError, match="not answered"):
        layers("7.0.0").response("SET_TENSOR")


@pytest.mark.parametrize("data", [b"", b"\x06", bytes(9), b"\x0a" + bytes(8) + b"\1", b"\xff" * 40])
def test_any_bytes_give_a_packet(data: bytes) -> None:
    segment = IP(bytes(IP() / TCP(sport=40000, dport=50052) / data))
    assert segment.haslayer(TCP)

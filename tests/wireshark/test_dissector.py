"""What the dissector does on connections made for it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

pytest.importorskip("scapy")

from tests.bundled import capture
from tests.wireshark.shark import Shown, messages, needs_tshark, run
from tests.wireshark.talk import RPC, Talk, graph, tensor

pytestmark = needs_tshark
TWO_PASSES = ("-2", "-Y", "ggml_rpc")


def shown(talk: Talk, lua: Path, folder: Path, *arguments: str) -> list[Shown]:
    return messages(lua, talk.write(folder), *(arguments or TWO_PASSES))


def commands(found: list[Shown]) -> list[tuple[str, str]]:
    return [(s["cmd"], s["direction"]) for s in found]


def test_found_on_any_port(lua: Path, tmp_path: Path) -> None:
    talk = Talk(port=9123).hello().ask("DEVICE_COUNT", {"device_count": 2})
    found = shown(talk, lua, tmp_path)
    assert commands(found) == [
        ("HELLO", "up"), ("HELLO", "down"), ("DEVICE_COUNT", "up"), ("DEVICE_COUNT", "down"),
    ]  # fmt: skip
    assert found[3]["device_count"] == "2"
    assert found[3]["protocol"] == "7.0.0"


def test_named_on_a_port_by_the_user(lua: Path, tmp_path: Path) -> None:
    talk = Talk(port=9123, syn=False).ask("GET_ALIGNMENT", {"alignment": 64})
    assert not shown(talk, lua, tmp_path, *TWO_PASSES, "--disable-heuristic", "ggml_rpc_tcp")
    found = shown(talk, lua, tmp_path, *TWO_PASSES, "-d", "tcp.port==9123,ggml_rpc")
    assert commands(found) == [("GET_ALIGNMENT", "up"), ("GET_ALIGNMENT", "down")]
    assert found[1]["alignment"] == "64"


@pytest.mark.slow
def test_other_traffic_is_left_alone(lua: Path, tmp_path: Path) -> None:
    web = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    talk = Talk(port=8080).send(0, web).send(1, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert "HTTP" in run(lua, talk.write(tmp_path))
    assert not shown(talk, lua, tmp_path)
    noise = random.Random(1).randbytes(5000)
    assert not shown(Talk(port=8081).send(0, noise).send(1, noise), lua, tmp_path)


def test_entered_in_its_middle(lua: Path, tmp_path: Path) -> None:
    talk = Talk(port=9123, syn=False).send(0, bytes(range(256)) * 4)
    talk.ask("GET_TENSOR", {"data": b"abcd" * 4}, tensor=tensor(name="late"), size=16)
    found = shown(talk, lua, tmp_path)
    assert commands(found) == [("GET_TENSOR", "up"), ("GET_TENSOR", "down")]
    assert found[0]["tensor.name"] == found[1]["of_tensor"] == "late"


def test_fields_of_a_tensor(lua: Path, tmp_path: Path) -> None:
    talk = Talk().hello().ask("SET_TENSOR", tensor=tensor(7, "w"), offset=4, data=b"12345678")
    written = shown(talk, lua, tmp_path)[2]
    assert written["tensor.id"] == "0x0000000000000007"
    assert (written["tensor.name"], written["tensor.type"]) == ("w", "0")
    assert written.every["tensor.nb"] == ["4", "16", "16", "16"]
    assert (written["offset"], written["data_length"]) == ("4", "8")
    assert written["data"].replace(":", "") == b"12345678".hex()
    assert "response_in" not in written.fields
    assert "expert.unanswered" not in written.fields


def test_split_at_every_byte(lua: Path, tmp_path: Path) -> None:
    talk = Talk()
    talk.send(0, RPC.request("HELLO"), mss=1).send(1, RPC.response("HELLO", major=7), mss=1)
    talk.send(0, bytes(RPC.request("SET_TENSOR", tensor=tensor(), data=b"a" * 16)), mss=3)
    talk.send(0, RPC.request("DEVICE_COUNT"), mss=2)
    talk.send(1, RPC.response("DEVICE_COUNT", device_count=1), mss=5)
    found = shown(talk, lua, tmp_path)
    assert commands(found) == [
        ("HELLO", "up"), ("HELLO", "down"), ("SET_TENSOR", "up"), ("DEVICE_COUNT", "up"),
        ("DEVICE_COUNT", "down"),
    ]  # fmt: skip
    assert int(found[0]["last_frame"]) - int(found[0]["first_frame"]) == 32
    assert found[2]["tensor.name"] == "x"


def test_several_in_one_segment(lua: Path, tmp_path: Path) -> None:
    both = bytes(RPC.request("FREE_BUFFER", remote_ptr=1)) * 3
    found = shown(Talk().hello().send(0, both), lua, tmp_path)
    assert [s["cmd"] for s in found[2:]] == ["FREE_BUFFER"] * 3
    assert {s["first_frame"] for s in found[2:]} == {"6"}


def test_graphs_sent_again(lua: Path, tmp_path: Path) -> None:
    talk = Talk().hello()
    for numbers in ((1, 2), (1, 2), (3,), (1, 2)):
        talk.ask("GRAPH_COMPUTE", **graph(*numbers))
    talk.ask("GRAPH_RECOMPUTE")
    found = shown(talk, lua, tmp_path)[2:]
    again = ["expert.graph_resent" in s.fields for s in found]
    turns = ["expert.graph_alternates" in s.fields for s in found]
    assert again == [False, True, False, False, False]
    assert turns == [False, False, False, True, False]
    assert found[1]["same_graph_in"] == found[0]["first_frame"]
    assert found[4]["graph_in"] == found[3]["first_frame"]
    assert (found[0]["n_nodes"], found[0]["n_tensors"]) == ("2", "2")
    assert found[0].every["tensor.name"] == ["t1", "t2"]


def test_unanswered_and_unasked(lua: Path, tmp_path: Path) -> None:
    talk = Talk().hello().ask("DEVICE_COUNT")
    found = shown(talk, lua, tmp_path)
    assert ["expert.unanswered" in s.fields for s in found] == [False, False, True]
    talk.send(1, RPC.response("DEVICE_COUNT")).send(1, RPC.response("GET_ALIGNMENT"))
    found = shown(talk, lua, tmp_path)
    assert "expert.unasked" in found[-1].fields
    assert "expert.unanswered" not in found[2].fields


def test_reordered_and_repeated_segments(lua: Path, tmp_path: Path) -> None:
    talk = Talk().hello()
    talk.send(0, bytes(RPC.request("GRAPH_COMPUTE", **graph(*range(1, 30)))), mss=1400)
    talk.ask("GET_TENSOR", {"data": b"abcd" * 4}, tensor=tensor(), size=16)
    straight = commands(shown(talk, lua, tmp_path))
    packets = talk.packets
    packets[6], packets[7] = packets[7], packets[6]
    packets.insert(9, packets[8])
    for i, packet in enumerate(packets):
        packet.time = 1_700_000_000 + i * 0.001
    found = shown(talk, lua, tmp_path)
    assert commands(found) == straight
    compute = next(s for s in found if s["cmd"] == "GRAPH_COMPUTE")
    assert len(compute.every["tensor.name"]) == 29


def test_data_is_not_collected(lua: Path, tmp_path: Path) -> None:
    """A gigabyte is announced, three segments of it come."""
    request = bytes(RPC.request("SET_TENSOR", tensor=tensor(name="big"), data=bytes(4200)))
    request = request[:1] + ((1 << 30) + 305).to_bytes(8, "little") + request[9:]
    # The record must allow for it.
    wide = RPC.Tensor(id=1, ne=[1 << 28, 1, 1, 1], nb=[4, 1 << 30, 1 << 30, 1 << 30])
    request = request[:9] + bytes(wide) + request[9 + 296 :]
    found = shown(Talk().hello().send(0, request), lua, tmp_path)
    assert found[2]["length"] == str((1 << 30) + 305 + 9)
    assert found[2]["data_length"] == str(1 << 30)
    assert "last_frame" not in found[2].fields


def test_filter_by_tensor_in_a_graph(lua: Path, tmp_path: Path) -> None:
    talk = Talk().hello().ask("GRAPH_COMPUTE", **graph(1, 2)).ask("GRAPH_COMPUTE", **graph(3))
    path = talk.write(tmp_path)
    lines = run(lua, path, "-Y", 'ggml_rpc.tensor.name == "t2"').splitlines()
    assert len(lines) == 1
    assert "GRAPH_COMPUTE 2 nodes, 2 tensors" in lines[0]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A pcap with bytes changed and packets cut, dropped and doubled."""
    out, at = bytearray(data[:24]), 24
    while at + 16 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        header, packet = data[at : at + 16], bytearray(data[at + 16 : at + 16 + size])
        at += 16 + size
        change = rng.randrange(5) if rng.random() < 0.05 and size > 70 else -1
        if change == 0:
            continue
        if change == 1:
            packet[rng.randrange(54, size)] = rng.randrange(256)
        if change == 2:
            packet[66:75] = rng.randbytes(9)[: max(0, size - 66)]
        if change == 3:
            packet = packet[: rng.randrange(54, size)]
        for _ in range(2 if change == 4 else 1):
            out += header[:8] + len(packet).to_bytes(4, "little") + header[12:] + packet
    return bytes(out)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_damage_raises_no_error(seed: int, lua: Path, tmp_path: Path) -> None:
    name = ("v7.0-output-local", "v2.0.0-llama-bench", "v7.0-ssh-tunnel")[seed % 3]
    path = tmp_path / "damaged.pcap"
    data = gzip.decompress(Path(capture(name)).read_bytes())
    path.write_bytes(mutated(data, random.Random(seed)))
    names = ("-T", "fields", "-e", "ggml_rpc.cmd", "-e", "_ws.expert.message")
    assert "HELLO" in run(lua, path, *names, "-e", "ggml_rpc.tensor.name")
    run(lua, path, "-2", "-Y", "ggml_rpc", *names)


@pytest.mark.slow
def test_two_passes_without_a_filter(lua: Path) -> None:
    """There the first pass builds no tree; everything is read in the second."""
    path = capture("v7.0-ssh-tunnel")
    once = run(lua, path).splitlines()
    twice = run(lua, path, "-2").splitlines()
    assert sum("GGML-RPC" in line for line in once) > 1000
    assert once == twice

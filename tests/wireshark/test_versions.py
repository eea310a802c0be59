"""Every version and fork: the dissector reads a crafted conversation as `rpcwire frames` does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("scapy")

from rpcwire.frames import FrameReader
from rpcwire.ggml.versions import DIALECTS
from rpcwire.scapy import Layers, layers
from tests.wireshark.shark import counted, messages, needs_tshark
from tests.wireshark.talk import RPC, Talk

pytestmark = needs_tshark


#: Command 7 with 312 bytes is GET_TENSOR in these and SET_TENSOR_HASH in the next version, as
#: which it is shown until its answer, or another command, tells.
TWO_READINGS = ("none-2", "none-3")


def conversation(rpc: Layers) -> Talk:
    """Each of the version's commands that carry something, with answers where it answers."""
    row = rpc.dialect.row
    record = rpc.Tensor(id=5, ne=[4, 2, 1, 1], nb=[4, 16, 32, 32], op=1, tensor_name=b"t", buffer=3)
    fields: dict[str, dict[str, object]] = {
        "SET_TENSOR": {"tensor": record, "data": bytes(32)},
        "GET_TENSOR": {"tensor": record, "size": 32},
        "COPY_TENSOR": {"src": record, "dst": record},
        "GRAPH_COMPUTE": {"nodes": [5], "tensors": [record]},
    }
    carried = ("SET_TENSOR_HASH", "INIT_TENSOR", "GET_ALLOC_SIZE", "MEMSET_TENSOR")
    fields |= {name: {"tensor": record} for name in (*carried, "SET_TENSOR_GGUF")}
    if "GET_ALLOC_SIZE" in rpc.requests:
        wide = any(f.name == "srcs" for f in rpc.requests["GET_ALLOC_SIZE"].fields_desc)
        if wide:
            fields["GET_ALLOC_SIZE"]["srcs"] = [record] * 10
    talk = Talk()
    names = [c.name for c in rpc.dialect.commands.values()]
    if row.version is not None:
        names.remove("HELLO")
        talk.send(0, rpc.request("HELLO"))
        major, minor, patch = row.version
        talk.send(1, rpc.response("HELLO", major=major, minor=minor, patch=patch))
    for name in names:
        talk.send(0, rpc.request(name, **fields.get(name, {})))
        if name in rpc.responses:
            answer = {"data": bytes(32)} if name == "GET_TENSOR" else {}
            talk.send(1, rpc.response(name, **answer))
    return talk


QUICK = ("7.0.0", "ik-344")


@pytest.mark.parametrize(
    "version", [pytest.param(v, marks=[] if v in QUICK else [pytest.mark.slow]) for v in DIALECTS]
)
def test_read_alike(version: str, lua: Path, tmp_path: Path) -> None:
    rpc = layers(version)
    path = conversation(rpc).write(tmp_path)
    ours = [row for some in FrameReader([str(path)]) for row in some]
    shown = messages(lua, path, "-2", "-Y", "ggml_rpc")
    assert counted(shown) == Counter((r.number, r.direction, r.command, r.bytes) for r in ours)
    if version not in TWO_READINGS:
        assert {s["cmd"] for s in shown} == {c.name for c in rpc.dialect.commands.values()}
    answered = [s for s in shown if "response_in" in s.fields]
    assert len(answered) == len(rpc.responses)
    tensors = [s for s in shown if "tensor.name" in s.fields]
    assert all(set(s.every["tensor.name"]) == {"t"} for s in tensors)
    assert all(len(s.every["tensor.src"]) % rpc.dialect.layout.sources == 0 for s in tensors)
    assert not any("expert.odd_size" in s.fields for s in shown)


@pytest.mark.parametrize("byte", [0x2A, 0])
def test_the_byte_after_hello(byte: int, lua: Path, tmp_path: Path) -> None:
    caps = bytes([1]) * 24
    talk = Talk().send(0, RPC.request("HELLO", conn_caps=caps))
    talk.send(1, RPC.response("HELLO", major=7, conn_caps=caps))
    talk.send(0, bytes([byte])).send(1, bytes([byte]))
    talk.ask("DEVICE_COUNT", {"device_count": 1})
    shown = messages(lua, talk.write(tmp_path), "-2", "-Y", "ggml_rpc")
    assert [s["cmd"] for s in shown] == ["HELLO"] * 2 + ["RDMA_SYNC"] * 2 + ["DEVICE_COUNT"] * 2
    assert [s["length"] for s in shown][2:4] == ["1", "1"]

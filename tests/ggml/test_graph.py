"""Graph payloads: bounded, whole or refused."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from wire import capture, decode, tensor

from rpcwire.ggml.graph import parse_graph
from rpcwire.ggml.tensor import PACKED_296


def body(nodes: int, tensors: int, device: int | None = 0) -> bytes:
    head = b"" if device is None else struct.pack("<I", device)
    ids = [0x1000 * (i + 1) for i in range(tensors)]
    records = b"".join(tensor(ident=i, src=(0x1000,)) for i in ids)
    return head + struct.pack(f"<I{nodes}QI", nodes, *ids[:nodes], tensors) + records


def test_whole_graph() -> None:
    graph = parse_graph(body(2, 5, 3), PACKED_296, True)
    assert graph is not None
    assert (graph.device, len(graph.nodes), len(graph.tensors)) == (3, 2, 5)
    assert graph.node_rows.tolist() == [0, 1]
    assert graph.src_rows[:, 0].tolist() == [0] * 5
    assert (graph.src_rows[:, 1:] == -1).all()
    assert (graph.view_rows == -1).all()
    assert 0x2000 in graph
    assert 0x9999000 not in graph
    same = parse_graph(body(2, 5, 3), PACKED_296, True)
    other = parse_graph(body(1, 5, 3), PACKED_296, True)
    assert same is not None and other is not None
    assert graph.digest == same.digest != other.digest


def test_old_graph_without_device() -> None:
    graph = parse_graph(body(1, 2, None), PACKED_296, False)
    assert graph is not None
    assert (graph.device, len(graph.tensors)) == (0, 2)


def test_empty_graph() -> None:
    graph = parse_graph(body(0, 0), PACKED_296, True)
    assert graph is not None
    assert graph.node_rows.tolist() == []


def test_claims_that_do_not_add_up() -> None:
    good = body(2, 5)
    for at in (4, 8 + 16):
        for claim in (0, 1, 6, 1 << 31, (1 << 32) - 1):
            bad = good[:at] + struct.pack("<I", claim) + good[at + 4 :]
            assert parse_graph(bad, PACKED_296, True) is None
    for cut in range(0, len(good), 7):
        assert parse_graph(good[:cut], PACKED_296, True) is None


@given(st.binary(max_size=600), st.booleans())
def test_any_bytes(payload: bytes, device: bool) -> None:
    graph = parse_graph(payload, PACKED_296, device)
    assert graph is None or len(graph.raw) == len(payload)


def test_graph_of_a_real_run() -> None:
    graphs = [
        f.graph for c in capture("v7.0-llama-server") for f in decode(c)[1] if f.graph is not None
    ]
    assert len(graphs) == 5
    for graph in graphs:
        assert (graph.node_rows >= 0).all()
        known = graph.tensors["src"] != 0
        assert (graph.src_rows[known] >= 0).all()

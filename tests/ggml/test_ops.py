"""Op numbers read off graphs of four generations of builds, named or nameless."""

from __future__ import annotations

import numpy as np
import pytest
from wire import capture, decode

from rpcwire.ggml.graph import Graph
from rpcwire.ggml.ops import infer_ops, op_names
from rpcwire.ggml.ops_table import OP_TABLES

#: capture -> ops of its build (ggml.h of the vendored source).
BUILDS: dict[str, int] = {
    "v2.0.0-llama-bench": 88,
    "v3.6.1-llama-bench": 96,
    "v4.0.1-llama-server": 97,
    "v7.0-llama-server": 101,
    "v7.0-qwen35-mtp": 101,
}


def graphs(name: str) -> list[Graph]:
    found = [f.graph for c in capture(name) for f in decode(c)[1] if f.graph is not None]
    return list({(len(g.nodes), len(g.tensors)): g for g in found}.values())


def altered(graph: Graph, **columns: object) -> Graph:
    tensors = graph.tensors.copy()
    for column, values in columns.items():
        tensors[column] = values
    return Graph(graph.device, graph.nodes, tensors, graph.layout)


def test_tables_are_as_in_the_sources() -> None:
    by_count = {len(t.names): t.names for t in OP_TABLES}
    assert by_count[88].index("MUL_MAT") == 28
    assert by_count[88].index("FLASH_ATTN_EXT") == 67
    assert by_count[96].index("MUL_MAT") == 29
    assert by_count[96].index("FLASH_ATTN_EXT") == 73
    assert by_count[101].index("FLASH_ATTN_EXT") == 74
    assert by_count[101].index("GATED_DELTA_NET") == 86
    assert by_count[101][-1] == "GLU"
    for table in OP_TABLES:
        assert len(set(table.names)) == len(table.names)


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("named", [True, False])
def test_builds(name: str, named: bool) -> None:
    truth = next(t.names for t in OP_TABLES if len(t.names) == BUILDS[name])
    for graph in graphs(name):
        names = op_names(graph if named else altered(graph, name=b""))
        for number in np.unique(graph.tensors["op"]).tolist():
            assert names[number] == truth[number]


@pytest.mark.parametrize("name", ["v2.0.0-llama-bench", "v7.0-llama-server", "v7.0-qwen35-mtp"])
def test_same_graphs_numbered_by_every_build(name: str) -> None:
    """As if each build had sent the graph: the numbers move, the meaning is found."""
    truth = next(t.names for t in OP_TABLES if len(t.names) == BUILDS[name])
    for graph in graphs(name):
        ops = graph.tensors["op"]
        used = {truth[n] for n in np.unique(ops).tolist()}
        for table in OP_TABLES:
            if not used <= set(table.names):
                continue
            moved = np.array([table.names.index(n) if n in used else 0 for n in truth])
            names = op_names(altered(graph, op=moved[ops], name=b""))
            assert {names[table.names.index(n)] for n in used} == used


def test_lead_is_told() -> None:
    graph = graphs("v7.0-llama-server")[0]
    _, lead = infer_ops(altered(graph, name=b""))
    assert lead > 2
    _, lead = infer_ops(altered(graph, op=0))
    assert lead == 0


def test_nonsense_does_not_raise() -> None:
    graph = graphs("v7.0-llama-server")[0]
    rng = np.random.default_rng(1)
    junk = rng.integers(0, 256, graph.tensors.nbytes, np.uint8).view(graph.tensors.dtype)
    assert op_names(Graph(0, graph.nodes, junk, graph.layout))
    assert op_names(Graph(0, graph.nodes[:0], graph.tensors[:0], graph.layout))

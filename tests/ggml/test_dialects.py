"""Every row of the table, spoken and understood."""

from __future__ import annotations

import pytest
from wire import Talk, Tcp, balanced, decode, seen

from rpcwire.ggml.stream import State
from rpcwire.ggml.versions import DIALECTS


@pytest.mark.parametrize("key", DIALECTS)
def test_whole_run_is_understood(key: str) -> None:
    talk = Talk(key)
    talk.run()
    connection, frames = decode(talk)
    assert seen(frames) == talk.expected
    assert connection.protocol == ("none" if key.startswith("none") else talk.dialect.protocol)
    assert connection.undecoded_bytes == 0
    assert all((f.direction == 0) == (f.request is None) for f in frames)
    graphs = [f.graph for f in frames if f.command == "GRAPH_COMPUTE" and f.direction == 0]
    assert [len(g.tensors) for g in graphs] == [4] * len(graphs)
    weight = next(f for f in frames if f.command == "SET_TENSOR" and f.size > 70_000)
    assert weight.tensor.ne == (512, 70, 1, 1)
    assert (weight.data_offset, weight.data_size) == (0, 71_680)
    read = [f for f in frames if f.command == "GET_TENSOR" and f.direction == 0]
    assert all((f.data_offset, f.data_size) == (0, 512) for f in read)
    assert all(f.response.request is f for f in read)
    assert connection.layout.layout.size == talk.dialect.layout.size
    balanced(connection, talk)


@pytest.mark.parametrize("key", [k for k in DIALECTS if not k.startswith("none")])
def test_run_that_begins_after_hello(key: str) -> None:
    talk = Talk(key)
    talk.run(steps=6)
    first = next(i for i, e in enumerate(talk.expected) if e[1] == "GET_ALIGNMENT")
    late = Talk(key)
    late.expected = talk.expected[first:]
    skip = [sum(s for d, _, s in talk.expected[:first] if d == side) for side in (0, 1)]
    for side in (0, 1):
        at = 0
        for piece in talk.sides[side]:
            if at >= skip[side]:
                late.sides[side].append(piece)
            at += piece.length
    connection, frames = decode(late, Tcp(True, (False, False)))
    assert connection.state is State.RPC
    assert connection.protocol_source == "inferred"
    low, _, high = connection.protocol.partition("-")
    if not talk.dialect.row.fork:
        numbers = tuple(map(int, low.split("."))), tuple(map(int, (high or low).split(".")))
        assert numbers[0] <= talk.dialect.row.version <= numbers[1]
    assert seen(frames) == late.expected
    balanced(connection, late)

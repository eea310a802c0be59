"""Real runs through the protocol layer: counts as recorded, books that balance, any batches."""

from __future__ import annotations

import json
import random

import pytest
from wire import CAPTURES, Piece, Talk, Tcp, balanced, capture, decode, facts, seen

from rpcwire.ggml.stream import RpcConnection, State

#: capture -> (connections, version, graphs computed, graphs computed again).
RUNS = {
    "v2.0.0-llama-bench": (62, "2.0.0", 19, 0),
    "v3.6.1-llama-bench": (63, "3.6.1", 2, 17),
    "v4.0.1-llama-server": (331, "4.0.1", 3, 22),
    "v7.0-llama-server": (13, "7.0.0", 5, 36),
    "v7.0-qwen35-mtp": (18, "7.0.0", 59, 36),
}
UNANSWERED = {
    "2.0.0": {"SET_TENSOR"},
    "3.6.1": {"SET_TENSOR", "GRAPH_COMPUTE", "GRAPH_RECOMPUTE"},
}
UNANSWERED["4.0.1"] = UNANSWERED["3.6.1"]
UNANSWERED["7.0.0"] = UNANSWERED["3.6.1"] | {"FREE_BUFFER", "BUFFER_CLEAR", "INIT_TENSOR"}


@pytest.mark.parametrize("name", RUNS)
def test_real_run(name: str) -> None:
    connections, version, graphs, again = RUNS[name]
    conversations = capture(name)
    assert len(conversations) == connections
    frames = []
    for conversation in conversations:
        connection, found = decode(conversation)
        assert connection.state is State.RPC
        assert (connection.protocol, connection.protocol_source) == (version, "hello")
        assert connection.undecoded_bytes == 0
        assert connection.notes == []
        balanced(connection, conversation)
        frames += found
    requests = [f for f in frames if f.direction == 0]
    assert sum(f.command == "GRAPH_COMPUTE" for f in requests) == graphs
    assert sum(f.graph is not None for f in requests) == graphs
    assert sum(f.command == "GRAPH_RECOMPUTE" for f in requests) == again
    assert {f.command for f in requests if f.response is None} == UNANSWERED[version]
    assert all(f.request.response is f for f in frames if f.direction == 1)
    for f in requests:
        assert f.missing == f.truncated == 0
        if f.response is not None:
            assert f.response.time_ns >= f.end_ns
        if f.command == "GET_TENSOR":
            assert f.response.size == 8 + f.data_size
            assert len(f.response.content or b"") in (0, f.data_size)
        if f.command == "SET_TENSOR":
            assert 0 <= f.data_offset <= f.data_offset + f.data_size <= f.tensor.nbytes
            assert (f.content is None) == (f.data_size > 65536)


def test_frames_come_in_the_order_of_their_packets() -> None:
    _, frames = decode(capture("v7.0-llama-server")[-1])
    numbers = [f.end_number for f in frames]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", ["v2.0.0-llama-bench", "v7.0-qwen35-mtp"])
def test_batches_do_not_matter(name: str) -> None:
    conversation = max(capture(name), key=lambda c: c.length(0))
    _, whole = decode(conversation)
    last = max(p.number for side in conversation.sides for p in side)
    rng = random.Random(name)
    for batches in (range(last), sorted(rng.sample(range(last), 40))):
        _, cut = decode(conversation, batches=list(batches))
        assert facts(cut) == facts(whole)


def test_load_of_which_most_headers_were_cut() -> None:
    name = "v7.0-load-cold-snap400"
    tokens = json.loads((CAPTURES / f"{name}.json").read_text())["requests"][0]["predicted_n"]
    conversation = max(capture(name), key=lambda c: c.length(0))
    connection, frames = decode(conversation)
    balanced(connection, conversation)
    assert connection.undecoded_bytes > 1_000_000
    assert any("could not be decoded" in note and "packet" in note for note in connection.notes)
    assert sum(f.truncated for f in frames) > 10_000_000
    submitted = [f for f in frames if f.command in ("GRAPH_COMPUTE", "GRAPH_RECOMPUTE")]
    logits = [f for f in frames if f.command == "GET_TENSOR" and f.direction == 0]
    assert len(submitted) == len(logits) == tokens + 1  # one for the pass of two tokens at start
    assert all(f.response is not None and f.response.size == 8 + f.data_size for f in logits)
    last = int(len(frames) * 0.6)
    assert not any(f.command.startswith("UNKNOWN") for f in frames[last:])
    _, cut = decode(conversation, batches=list(range(0, 9000, 50)))
    assert facts(cut) == facts(frames)


def test_late_start_of_a_real_run() -> None:
    """The first third of the packets is missing: on from the next header, nothing made up."""
    for name in ("v3.6.1-llama-bench", "v4.0.1-llama-server", "v7.0-llama-server"):
        conversation = max(capture(name), key=lambda c: c.length(0))
        numbers = sorted(p.number for side in conversation.sides for p in side)
        late = type(conversation)()
        for side in (0, 1):
            late.sides[side].extend(
                p for p in conversation.sides[side] if p.number > numbers[len(numbers) // 3]
            )
        connection, frames = decode(late, Tcp(False, (False, False)))
        assert connection.state is State.RPC
        assert connection.protocol_source == "inferred"
        balanced(connection, late)
        _, whole = decode(conversation)
        tail = facts(whole)[-len(frames) :]
        assert [t[:2] for t in facts(frames)] == [t[:2] for t in tail]
        assert connection.undecoded_bytes < 400_000


def test_side_of_the_client_is_found() -> None:
    talk = Talk("6.0.0")
    talk.run()
    turned = Talk("6.0.0")
    turned.sides = (talk.sides[1], talk.sides[0])
    connection, frames = decode(turned, Tcp(False, (True, True)))
    assert connection.client_side == 1
    assert seen(frames) == talk.expected


def test_hello_alone_and_memory_alone() -> None:
    talk = Talk("4.0.0")
    talk.hello()
    connection, frames = decode(talk)
    assert (connection.protocol, len(frames)) == ("4.0.0", 2)
    for key in ("none-2", "none-4"):
        talk = Talk(key)
        talk.ask("GET_DEVICE_MEMORY")
        connection, frames = decode(talk)
        assert connection.protocol == "none"
        assert seen(frames) == talk.expected


def test_handshake_alone_stays_undecided() -> None:
    connection, frames = decode(Talk("7.0.0"))
    assert connection.state is State.UNDECIDED
    assert frames == []


def test_requests_alone() -> None:
    """The capture holds one direction only."""
    for key in ("2.0.0", "7.0.0"):
        talk = Talk(key)
        talk.run()
        talk.sides[1].clear()
        connection, frames = decode(talk)
        assert seen(frames) == [e for e in talk.expected if e[0] == 0]
        assert connection.protocol_source == "inferred"


@pytest.mark.parametrize("proved", [True, False])
def test_responses_alone(proved: bool) -> None:
    """Only the worker's side was captured: HELLO's answer shows what it is."""
    for key in ("2.0.0", "7.0.0"):
        talk = Talk(key)
        talk.run()
        pieces = talk.sides[0]
        if proved:
            pieces[:] = [Piece(b"", p.length, p.number, lost=True) for p in pieces]
        else:
            pieces.clear()
        connection, frames = decode(talk)
        assert connection.state is State.RPC
        assert connection.protocol == key
        down = [e for e in talk.expected if e[0] == 1]
        assert [f.size for f in frames] == [e[2] for e in down]
        assert [f.command for f in frames] == ["HELLO"] + ["UNKNOWN"] * (len(down) - 1)
        balanced(connection, talk)


def test_rdma_sync_byte_and_silence() -> None:
    for byte, silent in ((b"\x2a", True), (b"\x00", False)):
        talk = Talk("4.0.0")
        talk.hello(caps=1)
        talk.send(0, byte)
        talk.send(1, byte)
        talk.expected += [(0, "RDMA_SYNC", 1), (1, "RDMA_SYNC", 1)]
        if not silent:
            talk.ask("DEVICE_COUNT", device_count=1)
            talk.ask("GET_ALIGNMENT", alignment=128)
        connection, frames = decode(talk)
        assert seen(frames) == talk.expected
        assert ("silent" in " ".join(connection.notes)) == silent
        balanced(connection, talk)
    talk = Talk("4.0.0")
    talk.hello(caps=1)
    connection, _ = decode(talk)
    assert "silent" in " ".join(connection.notes)
    talk.ask("DEVICE_COUNT")
    connection, frames = decode(talk)
    assert seen(frames) == talk.expected
    assert "silent" not in " ".join(connection.notes)


def test_fork_that_answers_graphs_is_read_and_named() -> None:
    talk = Talk("7.0.0")
    talk.hello()
    talk.ask("DEVICE_COUNT")
    for _ in range(3):
        talk.step()
        get = talk.expected[-2:]
        talk.expected[-2:] = []
        tail = talk.sides[0][-3:], talk.sides[1][-2:]
        del talk.sides[0][-3:], talk.sides[1][-2:]
        talk.answer(b"\0", "GRAPH_COMPUTE")
        for side in (0, 1):
            for piece in tail[side]:
                talk.send(side, piece.data)
        talk.expected += get
    connection, frames = decode(talk)
    assert seen(frames) == talk.expected
    assert all(f.request is not None for f in frames if f.direction == 1)
    assert any("GRAPH_COMPUTE is answered" in n for n in connection.notes)


def test_unknown_command_is_named_and_followed() -> None:
    talk = Talk("7.0.0")
    talk.hello()
    talk.raw(19, bytes(40), "UNKNOWN_19")
    talk.ask("DEVICE_COUNT")
    talk.raw(16, bytes(16), "GRAPH_RECOMPUTE")
    talk.ask("GET_ALIGNMENT")
    connection, frames = decode(talk)
    assert seen(frames) == talk.expected
    assert sum("a fork?" in n for n in connection.notes) == 2


def test_hint_narrows_what_is_inferred() -> None:
    talk = Talk("5.1.0")
    for _ in range(3):
        talk.step(1)
    tcp = Tcp(True, (False, False))
    first, _ = decode(talk, tcp)
    assert first.protocol == "3.5.0-6.0.0"
    other = Talk("5.1.0")
    other.hello()
    hello, _ = decode(other)
    second = RpcConnection(tcp)
    second.hint(hello.dialects)
    assert second.protocol == "5.1.0"


def test_claim_of_2_to_the_63_is_not_believed() -> None:
    talk = Talk("7.0.0")
    talk.hello()
    talk.ask("DEVICE_COUNT")
    talk.send(0, b"\x06" + (1 << 63).to_bytes(8, "little") + bytes(100))
    connection, frames = decode(talk)
    assert len(frames) == 4
    assert connection.undecoded_bytes == 109
    talk = Talk("7.0.0")
    talk.hello()
    talk.send(0, b"\x06" + (1 << 40).to_bytes(8, "little") + bytes(100))
    connection, frames = decode(talk)
    assert (frames[-1].size, frames[-1].bytes) == ((1 << 40) + 9, 109)


def test_bulk_is_skipped_not_gathered() -> None:
    """How far bytes are of no interest is known while a large payload runs."""
    talk = Talk("7.0.0")
    talk.hello()
    body = talk.dialect.commands[6]
    assert body.name == "SET_TENSOR"
    talk.raw(6, bytes(1 << 20), "SET_TENSOR")
    connection = RpcConnection(Tcp())
    from wire import span

    pieces = talk.sides[0]
    connection.feed(0, span([*pieces[:-1], type(pieces[0])(bytes(1000), 1000, 9)], 0))
    connection.feed(1, span(talk.sides[1], 0))
    connection.settle(9)
    assert connection.skip_until(0) == 33 + 9 + (1 << 20)
    assert connection.skip_until(1) == 36

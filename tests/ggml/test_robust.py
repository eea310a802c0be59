"""Damage of every kind: nothing raises, nothing is lost silently, nothing is made up."""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire import Conversation, Piece, Talk, Tcp, balanced, capture, decode, facts, span

from rpcwire.ggml.frame import Frame
from rpcwire.ggml.stream import RpcConnection, State

KEYS = ["none-2", "none-4", "2.0.0", "3.0.0", "3.6.0", "5.1.0", "7.0.0"]
few = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@cache
def run(key: str) -> tuple[Talk, list[tuple]]:
    talk = Talk(key)
    talk.run()
    _, frames = decode(talk)
    return talk, facts(frames)


def cut_at(conversation: Conversation, cuts: tuple[list[int], list[int]]) -> Conversation:
    """The same bytes in other pieces, none of which spans what the other side says between.

    A piece has the number of the last of the old pieces that it has bytes of.
    """
    result = Conversation()
    for side in (0, 1):
        whole = b"".join(p.data for p in conversation.sides[side])
        numbers = [p.number for p in conversation.sides[side] for _ in range(p.length)]
        others = [0, *(p.number for p in conversation.sides[1 - side])]
        turns = set()
        at = 0
        previous = -1
        for piece in conversation.sides[side]:
            turn = bisect(others, piece.number)
            if turn != previous:
                turns.add(at)
            previous = turn
            at += piece.length
        bounds = sorted({c % (len(whole) or 1) for c in cuts[side]} | {0, len(whole)} | turns)
        for a, b in itertools.pairwise(bounds):
            result.sides[side].append(
                Piece(whole[a:b], b - a, numbers[b - 1], numbers[b - 1] * 1000)
            )
    return result


offsets = st.lists(st.integers(0, 1 << 20), max_size=60)


@few
@given(st.sampled_from(KEYS), offsets, offsets, st.lists(st.integers(0, 300), max_size=20))
def test_split_anywhere(key: str, up: list[int], down: list[int], batches: list[int]) -> None:
    talk, expected = run(key)
    cut = cut_at(talk, (up, down))
    connection, frames = decode(cut, batches=batches)
    assert facts(frames) == expected
    assert connection.undecoded_bytes == 0


@pytest.mark.parametrize("key", ["none-2", "3.0.0", "7.0.0"])
def test_one_byte_pieces(key: str) -> None:
    talk = Talk(key)
    if "HELLO" in talk.ids:
        talk.hello()
    talk.ask("GET_ALIGNMENT", alignment=128)
    talk.step()
    _, expected = decode(talk)
    cut = cut_at(talk, (list(range(talk.length(0))), list(range(talk.length(1)))))
    _, frames = decode(cut, batches=list(range(200)))
    assert facts(frames) == facts(expected)


@pytest.mark.parametrize("key", ["2.0.0", "7.0.0"])
def test_cut_at_every_byte(key: str) -> None:
    """The file ends at any byte: whole frames before, at most one part of a frame after."""
    talk = Talk(key)
    talk.hello()
    talk.ask("GET_ALIGNMENT", alignment=128)
    talk.step()
    _, whole = decode(talk)
    for side in (0, 1):
        for end in range(talk.length(side) + 1):
            short = Conversation()
            short.sides[1 - side].extend(talk.sides[1 - side])
            at = 0
            for piece in talk.sides[side]:
                n = min(piece.length, end - at)
                if n > 0:
                    short.sides[side].append(Piece(piece.data[:n], n, piece.number))
                at += piece.length
            connection, frames = decode(short)
            if not connection.recognised:
                assert side == 0
                assert end < 9
                continue
            balanced(connection, short)
            kept = [f for f in frames if f.direction == side]
            assert [f.size for f in kept] == [f.size for f in whole if f.direction == side][
                : len(kept)
            ]
            assert sum(f.bytes != f.size for f in kept) <= 1


def holed(conversation: Conversation, gone: set[int], snap: int | None = None) -> Conversation:
    """Pieces with these indices (over both sides) never arrive; others are cut to `snap`."""
    result = Conversation()
    i = 0
    for side in (0, 1):
        pieces = conversation.sides[side]
        for k, piece in enumerate(pieces):
            if i in gone:
                later = pieces[min(k + 1, len(pieces) - 1)]
                result.sides[side].append(
                    Piece(b"", piece.length, later.number, later.time_ns, lost=True)
                )
            else:
                data = piece.data if snap is None else piece.data[:snap]
                result.sides[side].append(Piece(data, piece.length, piece.number, piece.time_ns))
            i += 1
    return result


def absent(conversation: Conversation, side: int) -> int:
    return sum(p.length - len(p.data) for p in conversation.sides[side])


def check_books(connection: RpcConnection, conversation: Conversation, frames: list[Frame]) -> None:
    balanced(connection, conversation)
    for f in frames:
        assert 0 <= f.missing + f.truncated <= f.bytes <= f.size
        assert f.command
    for direction in (0, 1):
        side = connection.client_side if direction == 0 else 1 - connection.client_side
        found = [f for f in frames if f.direction == direction]
        at = 0
        for f in sorted(found, key=lambda f: f.offset):
            assert f.offset >= at
            at = f.offset + f.bytes
        known = sum(f.missing + f.truncated for f in found)
        assert known <= absent(conversation, side)
        if not connection.undecoded[direction]:
            assert known == absent(conversation, side)


@few
@given(
    st.sampled_from(KEYS),
    st.sets(st.integers(0, 200), max_size=12),
    st.sampled_from([None, None, 1, 8, 60, 320]),
    st.lists(st.integers(0, 300), max_size=10),
)
def test_holes_anywhere(key: str, gone: set[int], snap: int | None, batches: list[int]) -> None:
    talk, _ = run(key)
    broken = holed(talk, gone, snap)
    connection, frames = decode(broken)
    if connection.recognised:
        check_books(connection, broken, frames)
        _, again = decode(broken, batches=batches)
        assert facts(again) == facts(frames)


def test_hole_within_a_payload_costs_a_count() -> None:
    talk, expected = run("7.0.0")
    big = max(range(len(talk.sides[0])), key=lambda i: talk.sides[0][i].length)
    broken = holed(talk, {big})
    connection, frames = decode(broken)
    assert connection.undecoded_bytes == 0
    assert [f[:4] for f in facts(frames)] == [f[:4] for f in expected]
    assert [f.missing for f in frames if f.missing] == [talk.sides[0][big].length]


def without(conversation: Conversation, first: int, last: int) -> Conversation:
    """The pieces that hold the request stream's bytes [first, last) never arrive."""
    at = 0
    gone = set()
    for i, piece in enumerate(conversation.sides[0]):
        if at < last and at + piece.length > first:
            gone.add(i)
        at += piece.length
    return holed(conversation, gone)


def test_hidden_header_is_told_from_length_and_payload() -> None:
    conversation = max(capture("v7.0-llama-server"), key=lambda c: c.length(0))
    whole = decode(conversation)[1]
    requests = [f for f in whole if f.direction == 0]
    for victim in requests[len(requests) // 2 :][:8]:
        broken = without(conversation, victim.offset, victim.offset + 1)
        connection, frames = decode(broken)
        check_books(connection, broken, frames)
        assert connection.undecoded_bytes == 0
        told = [(f.direction, f.offset, f.command, f.size) for f in frames]
        expected = [(f.direction, f.offset, f.command, f.size) for f in whole]
        assert sorted(told) == sorted(expected)


def test_hidden_headers_are_counted_and_named() -> None:
    conversation = max(capture("v7.0-llama-server"), key=lambda c: c.length(0))
    whole = decode(conversation)[1]
    requests = [f for f in whole if f.direction == 0]
    first, second = requests[len(requests) // 2 :][:2]
    broken = without(conversation, first.offset, second.offset + 1)
    connection, frames = decode(broken)
    check_books(connection, broken, frames)
    assert connection.undecoded == [first.size + second.size, 0]
    assert len(frames) >= len(whole) - 4
    (note,) = [n for n in connection.notes if "could not be decoded" in n]
    assert f"offset {first.offset:,}" in note
    lost = {f.offset for f in requests} - {f.offset for f in frames if f.direction == 0}
    assert lost == {first.offset, second.offset}


def test_hidden_response_header_costs_nothing() -> None:
    talk, expected = run("7.0.0")
    first_down = len(talk.sides[0])
    headers = [first_down + i for i, p in enumerate(talk.sides[1]) if p.length == 8][3:]
    for victim in headers:
        broken = holed(talk, {victim})
        connection, frames = decode(broken)
        assert connection.undecoded_bytes == 0
        # A hole is known late, so only the order within a direction is fixed.
        assert sorted(f[:4] for f in facts(frames)) == sorted(f[:4] for f in expected)


@pytest.mark.parametrize("seed", range(6))
def test_one_percent_of_packets_lost(seed: int) -> None:
    name = ["v2.0.0-llama-bench", "v4.0.1-llama-server", "v7.0-qwen35-mtp"][seed % 3]
    conversation = max(capture(name), key=lambda c: c.length(0))
    count = sum(map(len, conversation.sides))
    rng = random.Random(seed)
    gone = {i for i in range(6, count) if rng.random() < 0.01}
    broken = holed(conversation, gone)
    connection, frames = decode(broken)
    check_books(connection, broken, frames)
    whole = decode(conversation)[1]
    assert len(frames) > 0.93 * len(whole)
    true = {(f.direction, f.offset): f for f in whole}
    for f in frames:
        original = true.get((f.direction, f.offset))
        assert original is not None
        assert f.size == original.size
        if f.request is not None and original.request is not None:
            assert f.request.offset == original.request.offset
    paired = sum(f.request is not None for f in frames)
    assert paired > 0.93 * sum(f.request is not None for f in whole)


@few
@given(st.sampled_from(KEYS), st.randoms(use_true_random=False), st.integers(1, 20))
def test_mutated_streams(key: str, rng: random.Random, changes: int) -> None:
    talk, _ = run(key)
    bad = Conversation()
    for side in (0, 1):
        for piece in talk.sides[side]:
            bad.sides[side].append(Piece(piece.data, piece.length, piece.number))
    for _ in range(changes):
        piece = rng.choice(bad.sides[rng.randrange(2)])
        raw = bytearray(piece.data)
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        piece.data = bytes(raw)
    connection, frames = decode(bad)
    if connection.recognised:
        check_books(connection, bad, frames)
        _, again = decode(bad, batches=sorted(rng.sample(range(300), 9)))
        assert facts(again) == facts(frames)


FOREIGN = {
    "http": (b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}" * 900),
    "sse": (b"POST /completion HTTP/1.1\r\n\r\n{}", b'data: {"content":"x"}\n\n' * 9000),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(range(256)) * 40, b"SSH-2.0-x\r\n" * 30),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"\x16\x03\x03" * 99),
    "zeros": (bytes(300_000), bytes(300_000)),
    "counting": (b"".join(i.to_bytes(8, "little") for i in range(40_000)), b""),
    "text": (b"0 " * 99_999, b"\r\n" * 99_999),
    "smb": (b"\x00\x00\x00\x85\xffSMB" + bytes(400), b"\x00\x00\x00\x85\xffSMB" + bytes(400)),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("started", [True, False])
def test_other_protocols_are_not_taken_for_rpc(name: str, started: bool) -> None:
    talk = Conversation()
    for side in (0, 1):
        raw = FOREIGN[name][side]
        for i in range(0, len(raw), 1448):
            part = raw[i : i + 1448]
            talk.sides[side].append(Piece(part, len(part), 1 + i // 1448))
    connection, frames = decode(talk, Tcp(started, (started, started)), list(range(0, 300, 7)))
    assert connection.state is State.OTHER
    assert frames == []


def test_first_header_that_nothing_seconds_is_not_waited_for_forever() -> None:
    for first, then in ((b"\x01" + bytes(8), b"\xff" * 9), (b"\x06\0\0\0\0\x01\0\0\0", b"")):
        connection = RpcConnection(Tcp())
        at = 0
        for number in range(40):
            raw = first + then if number == 0 else b"\xff" * 65_536
            connection.feed(0, span([Piece(raw, len(raw), number + 1)], at))
            connection.settle(number + 1)
            at += len(raw)
        assert connection.state is State.OTHER


@few
@given(st.binary(max_size=5000), st.binary(max_size=5000), st.booleans(), st.booleans())
def test_random_bytes(up: bytes, down: bytes, known: bool, started: bool) -> None:
    talk = Conversation()
    for side, raw in enumerate((up, down)):
        if raw:
            talk.sides[side].append(Piece(raw, len(raw), 1 + side))
    connection, frames = decode(talk, Tcp(known, (started, started)))
    assert connection.state is not State.RPC or connection.client_side >= 0
    if not connection.recognised:
        assert frames == []


@pytest.mark.parametrize("seed", range(8))
def test_random_megabyte_is_not_rpc(seed: int) -> None:
    rng = random.Random(seed)
    raw = rng.randbytes(1 << 20)
    talk = Conversation()
    for i in range(0, len(raw), 1448):
        talk.sides[seed % 2].append(Piece(raw[i : i + 1448], len(raw[i : i + 1448]), 1 + i))
    connection, _ = decode(talk, Tcp(False, (False, False)))
    assert connection.state is State.OTHER


def test_start_within_weights() -> None:
    """The capture begins far inside one large upload: in step when it ends."""
    talk = Talk("7.0.0")
    talk.hello()
    rng = random.Random(5)
    talk.raw(6, rng.randbytes(3 << 20), "SET_TENSOR")
    for _ in range(3):
        talk.step()
    late = Conversation()
    begun = talk.length(0) - sum(s for d, _, s in talk.expected[-12:] if d == 0) - (2 << 20)
    at = 0
    for piece in talk.sides[0]:
        if piece.length > 1 << 20:
            raw = piece.data[begun - at :]
            late.sides[0].extend(
                Piece(raw[i : i + 1448], len(raw[i : i + 1448]), piece.number)
                for i in range(0, len(raw), 1448)
            )
        elif at >= begun:
            late.sides[0].append(piece)
        at += piece.length
    late.sides[1].extend(talk.sides[1][-6:])
    connection, frames = decode(late, Tcp(True, (False, False)))
    assert connection.state is State.RPC
    assert len(frames) == 15
    balanced(connection, late)

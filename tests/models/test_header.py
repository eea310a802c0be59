"""GGUF headers: both byte orders, versions, cut and hostile files."""

from __future__ import annotations

import random
import struct
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.errors import ModelError
from rpcwire.models.header import Counted, ShortHeaderError, read_header

from .ggufbytes import gguf, text

META = {
    "general.architecture": "llama",
    "a.int": 7,
    "a.float": 0.5,
    "a.flag": True,
    "a.list": [1, 2, 3],
}
TENSORS = [("t.weight", (256, 10), 2, 0), ("u.weight", (64,), 0, 1440)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
def test_reads_both_orders_and_versions(order: str, version: int) -> None:
    header = read_header(gguf(META, TENSORS, order, version))
    assert header.version == version
    assert header.big_endian == (order == ">")
    assert header.metadata["a.int"] == 7
    assert header.metadata["a.list"] == (1, 2, 3)
    assert [(t.name, t.shape, t.bytes) for t in header.tensors] == [
        ("t.weight", (256, 10), 256 // 32 * 18 * 10),
        ("u.weight", (64,), 256),
    ]
    assert header.data_start % 32 == 0
    assert header.file_bytes == header.data_start + 1440 + 256


def strings(order: str, count: int, seed: int, longest: int) -> bytes:
    rng = random.Random(seed)
    sizes = (rng.choice([0, 1, 5, 254, 255, 256, 300, longest]) for _ in range(count))
    return b"".join(text(rng.randbytes(size), order) for size in sizes)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("longest", [3, 70_000])
def test_string_arrays_of_any_bytes_are_stepped_over(order: str, longest: int) -> None:
    count = 3_000
    head = b"GGUF" + struct.pack(order + "IQQ", 3, 0, 2) + text(b"words", order)
    head += struct.pack(order + "IIQ", 9, 8, count) + strings(order, count, longest, longest)
    head += text(b"after", order) + struct.pack(order + "II", 4, 99)
    header = read_header(head)
    assert header.metadata == {"words": Counted(count), "after": 99}


def test_a_vocabulary_of_248320_tokens_takes_milliseconds() -> None:
    rng = random.Random(1)
    words = b"".join(text(b"x" * rng.randint(1, 12), "<") for _ in range(248_320))
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"tokenizer.ggml.tokens", "<")
    head += struct.pack("<IIQ", 9, 8, 248_320) + words
    start = time.perf_counter()
    header = read_header(head)
    assert time.perf_counter() - start < 0.2
    assert header.metadata["tokenizer.ggml.tokens"] == Counted(248_320)


def test_every_cut_asks_for_more() -> None:
    whole = gguf(META, TENSORS)
    for end in range(len(whole)):
        with pytest.raises(ShortHeaderError) as caught:
            read_header(whole[:end])
        assert caught.value.needed > end


@pytest.mark.parametrize(
    "data",
    [
        b"GGML" + bytes(40),
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62),
        gguf({}, [("x", (1, 1, 1, 1, 1), 0, 0)]),
        gguf({}, [("x", (1 << 40, 1 << 40), 0, 0)]),
        gguf({}, [("x", (32,), 4, 0)]),
        gguf({"general.alignment": 0}),
    ],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(ModelError):
        read_header(data)


@settings(max_examples=300, deadline=None)
@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    order=st.sampled_from("<>"),
)
def test_any_bytes_give_a_header_or_our_error(flips: list[tuple[int, int]], order: str) -> None:
    data = bytearray(gguf({**META, "words": ["a", "bc", ""]}, TENSORS, order))
    for place, value in flips:
        data[place % len(data)] = value
    with suppress(ModelError):
        read_header(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_noise_behind_the_magic(data: bytes) -> None:
    with pytest.raises(ModelError):
        read_header(b"GGUF\x03\x00\x00\x00" + b"\x01" * 16 + data)

"""The table: sizes of every request and response as the protocol page lists them."""

from __future__ import annotations

import pytest

from rpcwire.ggml.tensor import PACKED_292, PACKED_296, TENSOR, UNPACKED_296, WIDE_312, WIDE_344
from rpcwire.ggml.versions import DIALECTS, HELLO_ID, LATEST, ROWS, UPSTREAM, announced

NO = None  # not answered
OLD = {
    "ALLOC_BUFFER": (0, 8, 16),
    "GET_ALIGNMENT": (1, 0, 8),
    "GET_MAX_SIZE": (2, 0, 8),
    "BUFFER_GET_BASE": (3, 8, 8),
    "FREE_BUFFER": (4, 8, 0),
    "BUFFER_CLEAR": (5, 9, 0),
    "SET_TENSOR": (6, 304, 0),
    "GET_TENSOR": (7, 312, -1),
    "COPY_TENSOR": (8, 592, 1),
    "GRAPH_COMPUTE": (9, 8, 1),
    "GET_DEVICE_MEMORY": (10, 0, 16),
}
LATE_OLD = OLD | {"INIT_TENSOR": (11, 296, 0), "GET_ALLOC_SIZE": (12, 296, 8)}
HASHED = LATE_OLD | {
    "SET_TENSOR_HASH": (7, 312, 1),
    "GET_TENSOR": (8, 312, -1),
    "COPY_TENSOR": (9, 592, 1),
    "GRAPH_COMPUTE": (10, 8, 1),
    "GET_DEVICE_MEMORY": (11, 0, 16),
    "INIT_TENSOR": (12, 296, 0),
    "GET_ALLOC_SIZE": (13, 296, 8),
}
V1 = HASHED | {"HELLO": (14, 0, 3)}
V2 = V1 | {"SET_TENSOR": (6, 304, NO)}
V3 = V2 | {
    "ALLOC_BUFFER": (0, 12, 16),
    "GET_ALIGNMENT": (1, 4, 8),
    "GET_MAX_SIZE": (2, 4, 8),
    "GRAPH_COMPUTE": (10, 12, 1),
    "GET_DEVICE_MEMORY": (11, 4, 16),
    "GET_ALLOC_SIZE": (13, 300, 8),
    "DEVICE_COUNT": (15, 0, 4),
}
V35 = V3 | {"GRAPH_COMPUTE": (10, 12, NO), "GRAPH_RECOMPUTE": (16, 4, NO)}
V36 = V35 | {"GET_ALLOC_SIZE": (13, 3260, 8)}
V4 = V36 | {"HELLO": (14, 24, 28)}
V5 = V4 | {"MEMSET_TENSOR": (17, 313, 0)}
V6 = V5 | {
    "FREE_BUFFER": (4, 8, NO),
    "BUFFER_CLEAR": (5, 9, NO),
    "INIT_TENSOR": (12, 296, NO),
    "MEMSET_TENSOR": (17, 313, NO),
}
V7 = V6 | {"SET_TENSOR": (6, 305, NO)}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("none-0", OLD),
        ("none-2", OLD),
        ("none-3", LATE_OLD),
        ("none-4", HASHED),
        ("1.0.0", V1),
        ("2.0.0", V2),
        ("3.0.0", V3),
        ("3.5.0", V35),
        ("3.6.0", V36),
        ("4.0.0", V4),
        ("5.0.0", V5),
        ("5.1.0", V5),
        ("6.0.0", V6),
        ("7.0.0", V7),
    ],
)
def test_sizes(key: str, expected: dict[str, tuple[int, int, int | None]]) -> None:
    shapes = DIALECTS[key].shapes
    found = {s.name: (i, s.least, s.response if s.answered else NO) for i, s in shapes.items()}
    assert found == expected
    variable = {s.name for s in shapes.values() if s.fixed < 0}
    assert variable == {"SET_TENSOR", "GRAPH_COMPUTE"}


def test_fields_of_set_tensor() -> None:
    before, after = DIALECTS["6.0.0"].shapes[6], DIALECTS["7.0.0"].shapes[6]
    assert (before.tensor_at, before.offset_at, before.data_at) == (0, 296, 304)
    assert (after.tensor_at, after.offset_at, after.data_at) == (0, 297, 305)


def test_tensor_layouts() -> None:
    sizes = [x.size for x in (UNPACKED_296, PACKED_292, PACKED_296, WIDE_312, WIDE_344)]
    assert sizes == [296, 292, 296, 312, 344]
    assert TENSOR.itemsize == 296
    assert PACKED_296.at["buffer"] == 12
    assert UNPACKED_296.at["buffer"] == 16
    assert PACKED_296.at["name"] == 228


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ((1, 0, 0), ["1.0.0"]),
        ((2, 0, 1), ["2.0.0"]),
        ((3, 5, 0), ["3.5.0"]),
        ((3, 5, 2), ["3.5.0", "ik-312", "ik-344"]),
        ((3, 6, 1), ["3.6.0"]),
        ((4, 0, 3), ["4.0.0"]),
        ((5, 3, 0), ["5.1.0"]),
        ((7, 0, 1), ["7.0.0"]),
        ((99, 0, 0), [LATEST.row.key]),
        ((0, 0, 0), ["1.0.0"]),
    ],
)
def test_what_hello_announces(version: tuple[int, int, int], keys: list[str]) -> None:
    assert [d.key for d in announced(version)] == keys


def test_table_is_well_formed() -> None:
    assert len({r.key for r in ROWS}) == len(ROWS)
    assert [r.date for r in ROWS if not r.fork] == sorted(r.date for r in ROWS if not r.fork)
    assert LATEST is UPSTREAM[-1]
    for dialect in DIALECTS.values():
        assert len({c.name for c in dialect.commands.values()}) == len(dialect.commands)
        if dialect.row.version:
            assert dialect.commands[HELLO_ID].name == "HELLO"

"""Tensor records and the type table."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from wire import tensor

from rpcwire.ggml.tensor import (
    PACKED_296,
    TENSOR,
    TYPE_BY_ID,
    UNPACKED_296,
    WIDE_344,
    TensorRecord,
    nbytes,
    row_size,
    type_name,
)


def test_types_agree_with_gguf() -> None:
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":  # 40 in older releases of gguf, which never stores one
            continue
        known = TYPE_BY_ID[int(kind)]
        assert (known.name, known.block, known.size) == (kind.name, block, size)


def test_sizes() -> None:
    assert row_size(12, 512) == 288
    assert nbytes(0, (64, 2, 1, 1), (4, 256, 512, 512)) == 512
    assert nbytes(12, (512, 3, 1, 1), (144, 288, 864, 864)) == 864
    assert nbytes(0, (4, 2, 1, 1), (4, 1024, 2048, 2048)) == 1040
    assert nbytes(9999, (1, 1, 1, 1), (1, 1, 1, 1)) == 0
    assert nbytes(0, (0, 1, 1, 1), (4, 4, 4, 4)) == 0
    assert type_name(39) == "MXFP4"
    assert type_name(500) == "TYPE_500"


@pytest.mark.parametrize("layout", [PACKED_296, UNPACKED_296, WIDE_344])
def test_record_reads_as_numpy_does(layout) -> None:
    raw = tensor(layout, 0xABC, "F16", (8, 4, 2, 1), 0xB0F, 29, (1, 2, 3), b"blk.0.ffn")
    row = np.frombuffer(raw, layout.dtype)[0]
    record = TensorRecord(raw, layout)
    for name in ("id", "type", "buffer", "op", "flags", "view_src", "view_offs", "data"):
        assert getattr(record, name) == row[name]
    for name in ("ne", "nb", "op_params", "src"):
        assert getattr(record, name) == tuple(row[name])
    assert record.name == "blk.0.ffn"
    assert record.nbytes == 128


@pytest.mark.parametrize("length", range(0, 297, 4))
def test_cut_record_reads_as_far_as_it_goes(length: int) -> None:
    raw = tensor(name=b"x" * 63)[:length]
    record = TensorRecord(raw)
    whole = np.frombuffer(raw.ljust(296, b"\0"), TENSOR)[0]
    assert record.id in (0, whole["id"])
    assert record.type in (0, whole["type"])
    assert record.ne in ((), tuple(whole["ne"]))
    assert record.src in ((), tuple(whole["src"]))
    assert record.nbytes in (0, 512)
    assert isinstance(record.name, str)
    assert repr(record)

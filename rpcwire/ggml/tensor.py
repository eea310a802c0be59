"""Tensor records as they travel, and the table of ggml types."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MAX_DIMS = 4
MAX_OP_PARAMS = 16
NAME_SIZE = 64

#: ggml.h, enum ggml_tensor_flag.
FLAG_INPUT, FLAG_OUTPUT, FLAG_PARAM, FLAG_LOSS, FLAG_COMPUTE = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One row of the type table: `block` elements take `size` bytes."""

    id: int
    name: str
    block: int
    size: int


#: ggml.h, enum ggml_type, with the sizes of ggml-common.h. Numbers never moved; gaps are types
#: that were removed (their old sizes are kept where a build of 2024 or 2025 may have sent them).
TYPES: tuple[GgmlType, ...] = (
    GgmlType(0, "F32", 1, 4),
    GgmlType(1, "F16", 1, 2),
    GgmlType(2, "Q4_0", 32, 18),
    GgmlType(3, "Q4_1", 32, 20),
    GgmlType(6, "Q5_0", 32, 22),
    GgmlType(7, "Q5_1", 32, 24),
    GgmlType(8, "Q8_0", 32, 34),
    GgmlType(9, "Q8_1", 32, 36),
    GgmlType(10, "Q2_K", 256, 84),
    GgmlType(11, "Q3_K", 256, 110),
    GgmlType(12, "Q4_K", 256, 144),
    GgmlType(13, "Q5_K", 256, 176),
    GgmlType(14, "Q6_K", 256, 210),
    GgmlType(15, "Q8_K", 256, 292),
    GgmlType(16, "IQ2_XXS", 256, 66),
    GgmlType(17, "IQ2_XS", 256, 74),
    GgmlType(18, "IQ3_XXS", 256, 98),
    GgmlType(19, "IQ1_S", 256, 50),
    GgmlType(20, "IQ4_NL", 32, 18),
    GgmlType(21, "IQ3_S", 256, 110),
    GgmlType(22, "IQ2_S", 256, 82),
    GgmlType(23, "IQ4_XS", 256, 136),
    GgmlType(24, "I8", 1, 1),
    GgmlType(25, "I16", 1, 2),
    GgmlType(26, "I32", 1, 4),
    GgmlType(27, "I64", 1, 8),
    GgmlType(28, "F64", 1, 8),
    GgmlType(29, "IQ1_M", 256, 56),
    GgmlType(30, "BF16", 1, 2),
    GgmlType(31, "Q4_0_4_4", 32, 18),
    GgmlType(32, "Q4_0_4_8", 32, 18),
    GgmlType(33, "Q4_0_8_8", 32, 18),
    GgmlType(34, "TQ1_0", 256, 54),
    GgmlType(35, "TQ2_0", 256, 66),
    GgmlType(36, "IQ4_NL_4_4", 32, 18),
    GgmlType(37, "IQ4_NL_4_8", 32, 18),
    GgmlType(38, "IQ4_NL_8_8", 32, 18),
    GgmlType(39, "MXFP4", 32, 17),
    GgmlType(40, "NVFP4", 64, 36),
    GgmlType(41, "Q1_0", 128, 18),
    GgmlType(42, "Q2_0", 64, 18),
)
TYPE_BY_ID: dict[int, GgmlType] = {t.id: t for t in TYPES}
TYPE_ID: dict[str, int] = {t.name: t.id for t in TYPES}
#: Above every number that upstream or a fork known here uses (ik_llama.cpp goes to some 400).
TYPE_LIMIT = 512


def type_name(type_id: int) -> str:
    """Name of a ggml type, or "TYPE_<id>" for a number that the table does not have."""
    known = TYPE_BY_ID.get(type_id)
    return known.name if known else f"TYPE_{type_id}"


def row_size(type_id: int, elements: int) -> int:
    """Bytes of one row of `elements` elements; 0 for a type that the table does not have."""
    known = TYPE_BY_ID.get(type_id)
    return elements // known.block * known.size if known else 0


def nbytes(type_id: int, ne: tuple[int, ...], nb: tuple[int, ...]) -> int:
    """Bytes from a tensor's first to its last element, as ggml_nbytes counts; 0 if unknown."""
    known = TYPE_BY_ID.get(type_id)
    if known is None or min(ne) <= 0:
        return 0
    rest = sum((n - 1) * b for n, b in zip(ne[1:], nb[1:], strict=True))
    if known.block == 1:
        return known.size + (ne[0] - 1) * nb[0] + rest
    return ne[0] * nb[0] // known.block + rest


@dataclass(frozen=True)
class TensorLayout:
    """How a build packed a tensor record.

    Attributes:
        name: for documentation.
        sources: length of the source list.
        holes: True for the unpacked struct of the first two weeks: four bytes after `type`.
        tail: bytes after the name.
    """

    name: str
    sources: int = 10
    holes: bool = False
    tail: int = 4

    @cached_property
    def fields(self) -> tuple[tuple[str, str, int], ...]:
        """(name, numpy format, count) of each field in order; holes are named "_hole"."""
        hole = (("_hole", "u1", 4),) if self.holes else ()
        tail = (("use_count", "<i4", 1),) if self.tail else ()
        return (
            ("id", "<u8", 1),
            ("type", "<u4", 1),
            *hole,
            ("buffer", "<u8", 1),
            ("ne", "<u4", MAX_DIMS),
            ("nb", "<u4", MAX_DIMS),
            ("op", "<u4", 1),
            ("op_params", "<i4", MAX_OP_PARAMS),
            ("flags", "<i4", 1),
            ("src", "<u8", self.sources),
            ("view_src", "<u8", 1),
            ("view_offs", "<u8", 1),
            ("data", "<u8", 1),
            ("name", f"S{NAME_SIZE}", 1),
            *tail,
        )

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The record as a packed numpy dtype."""
        return np.dtype([(n, f) if c == 1 else (n, f, (c,)) for n, f, c in self.fields])

    @cached_property
    def size(self) -> int:
        """Bytes of a record."""
        return self.dtype.itemsize

    @cached_property
    def at(self) -> dict[str, int]:
        """Byte offset of each field."""
        offsets = self.dtype.fields
        assert offsets is not None
        return {name: int(entry[1]) for name, entry in offsets.items()}

    @cached_property
    def front(self) -> struct.Struct:
        """Unpacks (id, type, buffer, ne[4]) from a record's front."""
        return struct.Struct("<QI4xQ4I" if self.holes else "<QIQ4I")

    @cached_property
    def shape_struct(self) -> struct.Struct:
        """Unpacks (id, type, buffer, ne[4], nb[4], op) from a record's front."""
        return struct.Struct("<QI4xQ9I" if self.holes else "<QIQ9I")


PACKED_296 = TensorLayout("packed, 296 bytes")
PACKED_292 = TensorLayout("packed, 292 bytes", tail=0)
UNPACKED_296 = TensorLayout("with holes, 296 bytes", holes=True, tail=0)
WIDE_312 = TensorLayout("12 sources, 312 bytes", sources=12)
WIDE_344 = TensorLayout("16 sources, 344 bytes", sources=16)

#: The record of every upstream build since June 2024.
TENSOR: np.dtype[np.void] = PACKED_296.dtype

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_4U32 = struct.Struct("<4I")


class TensorRecord:
    """A tensor record that a request carries; its fields are read when asked for.

    `raw` begins with the record. It may be shorter when the capture was cut: fields that lie
    beyond it read as 0, () or "".
    """

    __slots__ = ("buffer", "id", "layout", "ne", "raw", "type")

    def __init__(self, raw: bytes, layout: TensorLayout = PACKED_296) -> None:
        self.raw = raw
        self.layout = layout
        self.ne: tuple[int, ...] = ()
        # What everybody asks for comes first in the record, and is read at once.
        if len(raw) >= layout.front.size:
            self.id, self.type, self.buffer, *ne = layout.front.unpack_from(raw)
            self.ne = tuple(ne)
            return
        self.id = int(_U64.unpack_from(raw)[0]) if len(raw) >= 8 else 0
        self.type = int(_U32.unpack_from(raw, 8)[0]) if len(raw) >= 12 else 0
        self.buffer = self._scalar("buffer", _U64)

    def __repr__(self) -> str:
        return f"TensorRecord({self.name!r}, {type_name(self.type)}, ne={self.ne}, id={self.id:#x})"

    def _scalar(self, name: str, fmt: struct.Struct) -> int:
        at = self.layout.at[name]
        return int(fmt.unpack_from(self.raw, at)[0]) if len(self.raw) >= at + fmt.size else 0

    def _several(self, name: str, code: str, count: int) -> tuple[int, ...]:
        at = self.layout.at[name]
        fmt = f"<{count}{code}"
        if len(self.raw) < at + struct.calcsize(fmt):
            return ()
        return struct.unpack_from(fmt, self.raw, at)

    @property
    def nb(self) -> tuple[int, ...]:
        """Strides in bytes (cut to 32 bits by the protocol)."""
        at = self.layout.at["nb"]
        return _4U32.unpack_from(self.raw, at) if len(self.raw) >= at + 16 else ()

    @property
    def op(self) -> int:
        """Operation number; what it means depends on the build, see ops."""
        return self._scalar("op", _U32)

    @property
    def op_params(self) -> tuple[int, ...]:
        """The 16 parameter words."""
        return self._several("op_params", "i", MAX_OP_PARAMS)

    @property
    def flags(self) -> int:
        """Bits FLAG_INPUT, FLAG_OUTPUT, FLAG_COMPUTE."""
        return self._scalar("flags", _U32)

    @property
    def src(self) -> tuple[int, ...]:
        """Ids of the sources, 0 where there is none."""
        return self._several("src", "Q", self.layout.sources)

    @property
    def view_src(self) -> int:
        """Id of the tensor that this one is a view of, or 0."""
        return self._scalar("view_src", _U64)

    @property
    def view_offs(self) -> int:
        """Offset of the view in bytes."""
        return self._scalar("view_offs", _U64)

    @property
    def data(self) -> int:
        """Address of the data on the worker."""
        return self._scalar("data", _U64)

    @property
    def name(self) -> str:
        """Name, at most 63 bytes."""
        at = self.layout.at["name"]
        return self.raw[at : at + NAME_SIZE].split(b"\0", 1)[0].decode("utf-8", "replace")

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor's data, 0 if the type is unknown or the record was cut."""
        ne, nb = self.ne, self.nb
        return nbytes(self.type, ne, nb) if ne and nb else 0


def record(row: NDArray[np.void], layout: TensorLayout = PACKED_296) -> TensorRecord:
    """One row of a graph's records as a TensorRecord."""
    return TensorRecord(row.tobytes(), layout)

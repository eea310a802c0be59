"""The header of a GGUF file: metadata and tensor table, without its vocabulary.

Reads any buffer that holds at least the header: a mapped file, or the first bytes of one. String
arrays (vocabulary, merges) are stepped over and only counted. Versions 2 and 3, both byte orders.
Layout: ggml's docs/gguf.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from rpcwire.errors import ModelError
from rpcwire.models.ggml_types import TYPES, row_bytes

MAGIC = b"GGUF"
MAX_KEYS = 65_536
MAX_TENSORS = 1_000_000
MAX_STRING = 16 << 20  #: bytes of one string that is kept (chat templates are the long ones)
MAX_ARRAY = 2_000_000  #: strings in one array; the largest vocabularies have 0.3 million
KEPT_ARRAY = 4_096  #: numeric arrays up to this length are kept as tuples

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}

Buffer = bytes | bytearray | memoryview
Scalar = int | float | bool | str


class ShortHeaderError(ModelError):
    """The buffer ends inside the header: more bytes are needed, at least up to `needed`."""

    def __init__(self, needed: int, where: str) -> None:
        super().__init__(f"the file ends inside its header ({where}, needs byte {needed})")
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Counted:
    """An array that was stepped over: its element count is all that was kept."""

    count: int


Value = Scalar | tuple[Scalar, ...] | Counted


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One line of a tensor table.

    Attributes:
        name: as in the file.
        type: number of the ggml type.
        shape: elements per dimension in ggml's order, the contiguous one first.
        bytes: size of its data.
        offset: of its data in the data section, bytes; -1 where there is no file.
    """

    name: str
    type: int
    shape: tuple[int, ...]
    bytes: int
    offset: int = -1


@dataclass(slots=True)
class Header:
    """What a GGUF file says before its data.

    Attributes:
        version: 2 or 3. big_endian: byte order of the file.
        metadata: key to value; long and string arrays as `Counted`.
        tensors: the tensor table, in file order.
        data_start: offset of the data section. file_bytes: size the whole file has or would have.
    """

    version: int
    big_endian: bool
    metadata: dict[str, Value] = field(default_factory=dict)
    tensors: list[TensorInfo] = field(default_factory=list)
    data_start: int = 0
    file_bytes: int = 0


class _Cursor:
    """A position in the buffer; every read names what it was reading when the buffer ends."""

    def __init__(self, data: Buffer, order: str) -> None:
        self.view = memoryview(data)
        self.order = order
        self.pos = 0
        self.where = "magic"
        self._u32 = struct.Struct(order + "I")
        self._u64 = struct.Struct(order + "Q")

    def need(self, size: int) -> int:
        """Step over `size` bytes and return where they began."""
        start, end = self.pos, self.pos + size
        if end > len(self.view):
            raise ShortHeaderError(end, self.where)
        self.pos = end
        return start

    def u32(self) -> int:
        return int(self._u32.unpack_from(self.view, self.need(4))[0])

    def u64(self) -> int:
        return int(self._u64.unpack_from(self.view, self.need(8))[0])

    def scalar(self, kind: int) -> Scalar:
        form = struct.Struct(self.order + _SCALARS[kind])
        value: Scalar = form.unpack_from(self.view, self.need(form.size))[0]
        return value

    def string(self) -> str:
        size = self.u64()
        if size > MAX_STRING:
            raise ModelError(f"a string of {size} bytes in {self.where}: the file is damaged")
        start = self.need(size)
        return bytes(self.view[start : self.pos]).decode("utf-8", "replace")


def read_header(data: Buffer) -> Header:
    """Parse the header at the start of `data`.

    Raises:
        ShortHeaderError: `data` ends before the tensor table does.
        ModelError: it is not GGUF, of a version not read here, or damaged.
    """
    if len(data) < 8:
        raise ShortHeaderError(8, "magic")
    if bytes(data[:4]) != MAGIC:
        raise ModelError("not a GGUF file (no GGUF magic)")
    little = int.from_bytes(bytes(data[4:8]), "little")
    big = little & 0xFFFF == 0
    version = int.from_bytes(bytes(data[4:8]), "big") if big else little
    if version not in (2, 3):
        raise ModelError(f"GGUF version {version} is not read; convert the file with a newer ggml")
    cursor = _Cursor(data, ">" if big else "<")
    cursor.pos = 8
    header = Header(version, big)
    cursor.where = "counts"
    n_tensors, n_keys = cursor.u64(), cursor.u64()
    if n_tensors > MAX_TENSORS or n_keys > MAX_KEYS:
        raise ModelError(f"{n_tensors} tensors and {n_keys} keys: the file is damaged")
    for number in range(n_keys):
        cursor.where = f"key {number + 1} of {n_keys}"
        key = cursor.string()
        cursor.where = f"value of {key[:60]}"
        header.metadata[key] = _value(cursor, cursor.u32())
    _tensor_table(cursor, header, n_tensors)
    return header


def _tensor_table(cursor: _Cursor, header: Header, count: int) -> None:
    end = 0
    for number in range(count):
        cursor.where = f"tensor {number + 1} of {count}"
        name = cursor.string()
        n_dims = cursor.u32()
        if n_dims > 4:
            raise ModelError(f"tensor {name[:60]} has {n_dims} dimensions: the file is damaged")
        shape = tuple(cursor.u64() for _ in range(n_dims))
        kind, offset = cursor.u32(), cursor.u64()
        size = row_bytes(kind, shape[0] if shape else 1)
        for extent in shape[1:]:
            size *= extent
        if size >= 1 << 63 or offset >= 1 << 63:
            raise ModelError(f"tensor {name[:60]} claims {size} bytes: the file is damaged")
        header.tensors.append(TensorInfo(name, kind, shape, size, offset))
        end = max(end, offset + size)
    alignment = header.metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise ModelError(f"general.alignment is {alignment!r}: the file is damaged")
    header.data_start = -(-cursor.pos // alignment) * alignment
    header.file_bytes = header.data_start + -(-end // alignment) * alignment


def _value(cursor: _Cursor, kind: int) -> Value:
    if kind == _STRING:
        return cursor.string()
    if kind == _ARRAY:
        return _array(cursor)
    if kind not in _SCALARS:
        raise ModelError(f"{cursor.where} has type {kind}, which GGUF does not know")
    return cursor.scalar(kind)


def _array(cursor: _Cursor) -> Value:
    kind, count = cursor.u32(), cursor.u64()
    if kind == _STRING:
        if count > MAX_ARRAY:
            raise ModelError(f"{cursor.where} claims {count} strings: the file is damaged")
        _step_over_strings(cursor, count)
        return Counted(count)
    if kind not in _SCALARS:  # arrays of arrays are allowed by the format and used by nobody
        raise ModelError(f"{cursor.where} is an array of type {kind}, which is not read")
    form = _SCALARS[kind]
    start = cursor.need(count * struct.calcsize("<" + form))
    if count > KEPT_ARRAY:
        return Counted(count)
    return struct.unpack_from(f"{cursor.order}{count}{form}", cursor.view, start)


_WINDOW = 1 << 20


def _step_over_strings(cursor: _Cursor, count: int) -> None:
    """Move past `count` strings.

    A length below 256 shows as a byte followed (little-endian) or preceded (big-endian) by seven
    zeros. Such places are found for a whole window at once; where each one's length leads exactly
    to the next, a run of strings is stepped over together. Any other string is read by itself.
    """
    left = count
    while left:
        start = cursor.pos
        window = np.frombuffer(cursor.view[start : start + _WINDOW], dtype=np.uint8)
        places, breaks = _places(window, cursor.order)
        while left:
            at = cursor.pos - start
            index = int(np.searchsorted(places, at))
            if index < len(places) and places[index] == at:
                run_end = int(breaks[np.searchsorted(breaks, index)])
                steps = min(run_end - index, left)
                cursor.need(int(places[index + steps]) - at)
                left -= steps
            if left:
                cursor.need(cursor.u64())
                left -= 1
            if cursor.pos - start >= len(window):
                break


def _places(window: np.ndarray, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return where lengths below 256 may stand in `window`, and the indices that end a run.

    An index ends a run when its string does not lead to the next place; the last one always does.
    """
    if len(window) < 8:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    zero = window == 0
    first, digit = (1, 0) if order == "<" else (0, 7)
    count = len(window) - 7
    seven = zero[first : first + count].copy()
    for shift in range(1, 7):
        seven &= zero[first + shift : first + shift + count]
    places = np.flatnonzero(seven)
    ends = places + 8 + window[places + digit]
    breaks = np.flatnonzero(ends[:-1] != places[1:])
    return places, np.append(breaks, max(len(places) - 1, 0))


def type_name(number: int) -> str:
    """Name of a ggml type, or `type N`."""
    return TYPES[number][0] if number in TYPES else f"type {number}"

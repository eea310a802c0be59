"""Rows of frames as text, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from rpcwire.output.terminal import Style, printable
from rpcwire.output.units import bytes_text, ms_text

if TYPE_CHECKING:
    from rpcwire.frames import FrameRow

Rows = Iterable[list["FrameRow"]]

#: What llama.cpp adds to the names of a split's inputs: "RPC0[127.0.0.1:50052]#inp_pos#0".
_SPLIT = re.compile(r"^RPC\d*\[[^]#]*\]#(.+)#\d+$")

#: Columns of the CSV, in order; `file` is added where there are several.
COLUMNS = (
    "number", "time_s", "connection", "direction", "command", "bytes", "tensor", "tensor_type",
    "shape", "phase", "role", "device", "pass", "response_ms", "missing_bytes", "truncated_bytes",
    "worker",
)  # fmt: skip
_HEAD = (
    f"{'PACKET':>8} {'TIME s':>10}  #  {'COMMAND':<17} {'BYTES':>9} {'PHASE':<8}"
    f"{'ROLE':<15} {'WAIT':>8}  TENSOR"
)


def json_lines(rows: Rows, several: bool) -> Iterator[str]:
    """One object a line; `several`: with the file."""
    dump = json.JSONEncoder(allow_nan=False).encode
    for some in rows:
        yield "".join(f"{dump(row.to_dict(file=several))}\n" for row in some)


def csv_lines(rows: Rows, several: bool) -> Iterator[str]:
    """A header line, then one line a frame; a shape is written as 256x4x1x1."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*COLUMNS, *(["file"] if several else [])], lineterminator="\n")
    rows = _begun(rows)
    writer.writeheader()
    for some in rows:
        for row in some:
            cells = row.to_dict(file=several)
            if row.shape is not None:
                cells["shape"] = "x".join(map(str, row.shape))
            writer.writerow(cells)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def text_lines(rows: Rows, style: Style) -> Iterator[str]:
    """Aligned columns under a heading; tensors without what a split adds to their names."""
    rows = _begun(rows)
    yield style.bold(_HEAD) + "\n"
    for some in rows:
        yield "".join(f"{_line(row)}\n" for row in some)


def _begun(rows: Rows) -> Rows:
    """The same rows, of which the first are there: an input that cannot be read has failed."""
    remaining = iter(rows)
    return chain([next(remaining, [])], remaining)


def _line(row: FrameRow) -> str:
    arrow = ">" if row.direction == "up" else "<"
    what = ""
    if row.tensor_type is not None and row.direction == "up":
        name = printable(_SPLIT.sub(r"\1", row.tensor or ""))
        what = f"{name} {row.tensor_type} {_shape(row.shape)}".strip()
    lost = row.missing_bytes + row.truncated_bytes
    if lost:
        what += f" [{bytes_text(lost)} not captured]"
    wait = ms_text(row.response_ms) if row.response_ms is not None else ""
    return (
        f"{row.number:>8} {row.time_s:>10.6f} {row.connection:>2}{arrow} {row.command:<17}"
        f"{bytes_text(row.bytes):>10} {row.phase:<8}{row.role:<15} {wait:>8}  {what}"
    ).rstrip()


def _shape(shape: list[int] | None) -> str:
    """Elements without the ones at the end."""
    if not shape:
        return ""
    last = max((i for i, n in enumerate(shape) if n != 1), default=0)
    return "x".join(map(str, shape[: last + 1]))

"""Rows of frames as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcwire.errors import UsageError
from rpcwire.output.frame_lines import COLUMNS

if TYPE_CHECKING:
    from rpcwire.frames import FrameRow

_GROUP = 1 << 16  #: rows of a row group: what is held in memory
_NUMBERS = {
    **dict.fromkeys(("number", "bytes", "pass", "missing_bytes", "truncated_bytes"), "int64"),
    **dict.fromkeys(("connection", "device"), "int32"),
    **dict.fromkeys(("time_s", "response_ms"), "float64"),
}


def write_parquet(rows: Iterable[list[FrameRow]], path: str) -> None:
    """Write frames as they come, with the columns of `rpcwire frames --csv` and the file's name.

    Texts that repeat are dictionaries (categories in pandas), `shape` is a list of integers.

    Raises:
        UsageError: pyarrow is not installed, or the file cannot be written.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError("pyarrow is not installed: pip install 'rpcwire[parquet]'") from None
    text = pa.dictionary(pa.int32(), pa.string())
    types = {name: getattr(pa, kind)() for name, kind in _NUMBERS.items()}
    types |= {"shape": pa.list_(pa.int64()), "tensor": pa.string()}
    schema = pa.schema([(name, types.get(name, text)) for name in (*COLUMNS, "file")])
    held: list[dict[str, Any]] = []
    remaining = iter(rows)
    first = next(remaining, [])  # an input that cannot be read leaves no file
    try:
        with open(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
            for some in chain([first], remaining):
                held += [row.to_dict(file=True) for row in some]
                if len(held) >= _GROUP:
                    writer.write_table(pa.Table.from_pylist(held, schema))
                    held.clear()
            writer.write_table(pa.Table.from_pylist(held, schema))
    except OSError as error:
        raise UsageError(f"cannot write {Path(path)}: {error.strerror or error}") from error

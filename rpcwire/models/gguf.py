"""GGUF files to models: whole, split in parts, or their beginning only."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from rpcwire.errors import ModelError
from rpcwire.models.header import Header, read_header
from rpcwire.models.model import Model, build_model

_PART = re.compile(r"^(.*)-(\d{5})-of-(\d{5})(\.gguf)$")
MAX_PARTS = 1_000


def part_names(name: str) -> list[str] | None:
    """Names of all parts of a split file, or None when `name` is not that of a part."""
    match = _PART.match(name)
    if not match:
        return None
    count = int(match[3])
    if not 0 < count <= MAX_PARTS:
        raise ModelError(f"{name}: {count} parts are not read")
    return [f"{match[1]}-{number + 1:05d}-of-{count:05d}{match[4]}" for number in range(count)]


def read_file_header(path: Path) -> Header:
    """Read the header of one file; its data is not touched.

    Raises:
        ModelError: not a GGUF file, damaged, ends inside its header, or cannot be opened.
    """
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise ModelError(f"{path.name} is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                view = memoryview(mapped)
                try:
                    header = read_header(view)
                finally:
                    view.release()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read {path}: {reason}") from error
    return header


def read_gguf(path: str | Path) -> Model:
    """Read a model from a GGUF file, any part of a split one, or the beginning of one.

    Raises:
        ModelError: not a GGUF file, damaged, a part missing, or cannot be opened.
    """
    path = Path(path)
    names = part_names(path.name)
    if not names:
        return model_from_headers([read_file_header(path)])
    missing = [name for name in names if not (path.parent / name).exists()]
    if missing:
        raise ModelError(f"{path.name}: {len(missing)} parts are missing, first {missing[0]}")
    return model_from_headers([read_file_header(path.parent / name) for name in names])


def model_from_headers(headers: list[Header]) -> Model:
    """Join the headers of the parts of one model (one header for a file that is not split).

    Raises:
        ModelError: the tables do not add up or the metadata is not that of a language model.
    """
    metadata = headers[0].metadata
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    claimed = metadata.get("split.tensors.count")
    parts = metadata.get("split.count")
    if len(headers) == 1 and isinstance(parts, int) and parts > 1:
        raise ModelError(
            f"this is one part of {parts}: keep gguf-split's file names (-00001-of-{parts:05d}) "
            "so that the others can be found"
        )
    if isinstance(claimed, int) and claimed != len(tensors):
        raise ModelError(f"the parts hold {len(tensors)} tensors, the first says {claimed}")
    return build_model(metadata, tensors, sum(header.file_bytes for header in headers))

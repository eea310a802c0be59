"""Captures as pandas DataFrames, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from rpcwire.errors import UsageError
from rpcwire.frames import FrameReader
from rpcwire.ggml.frame import UP
from rpcwire.reading import Reading, ReadOptions, Sources

if TYPE_CHECKING:
    import pandas as pd

    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass

_FRAME_COLUMNS = (
    "number", "time_s", "connection", "direction", "command", "bytes", "tensor", "tensor_type",
    "shape", "phase", "role", "device", "pass", "response_ms", "missing_bytes", "truncated_bytes",
    "worker", "file",
)  # fmt: skip
_FRAME_TYPES = {
    "number": "int64", "time_s": "float64", "connection": "int32", "bytes": "int64",
    "device": "int32", "pass": "Int64", "response_ms": "float64", "missing_bytes": "int64",
    "truncated_bytes": "int64",
    **dict.fromkeys(
        ("direction", "command", "tensor_type", "phase", "role", "worker", "file"), "category"
    ),
}  # fmt: skip
_PASS_TYPES = {
    "pass": "int64", "time_s": "float64", "end_s": "float64", "phase": "category",
    "context": "int32", "head": "bool", "rows": "int64", "output_rows": "Int64",
    "kv_len": "Int64", "nodes": "Int64", "steps": "int32", "frames": "int64", "bytes_up": "int64",
    "bytes_down": "int64", "wait_ms": "float64",
}  # fmt: skip


def read_frames(paths: Sources, **options: Unpack[ReadOptions]) -> pd.DataFrame:
    """Every request and response of a capture, one row each.

    Keywords and errors are those of `rpcwire.analyze`.

    Returns:
        Columns as in `rpcwire frames --csv` (see `rpcwire.frames.FrameRow` for what they mean,
        and docs/api.md for examples), with `file` always there. `shape` holds lists or None.
        `attrs["notes"]`: what was wrong with the capture, if anything.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = _pandas()
    columns: dict[str, list[Any]] = {name: [] for name in _FRAME_COLUMNS}
    reader = FrameReader(paths, **options)
    for rows in reader:
        for row in rows:
            for name, value in row.to_dict(file=True).items():
                columns[name].append(value)
    frame: pd.DataFrame = pandas.DataFrame(columns).astype(_FRAME_TYPES)
    frame.attrs["notes"] = reader.notes
    return frame


def read_passes(paths: Sources, **options: Unpack[ReadOptions]) -> pd.DataFrame:
    """Every pass of a model in a capture, one row each, in order of start.

    Keywords and errors are those of `rpcwire.analyze`.

    Returns:
        Columns: `pass` (number, as in `read_frames`), `time_s` and `end_s` (first and last byte,
        seconds from the first packet), `phase`, `context` (number of the KV cache it writes to),
        `head` (of a draft head), `rows` (tokens of the batch), `output_rows` (rows whose result
        was read), `kv_len` (padded KV cells), `nodes` (of its graphs), `steps` (graph
        submissions), `frames`, `bytes_up`, `bytes_down`, `wait_ms` (from blocking requests' last
        byte to their responses' first). Unknown is NA.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = _pandas()
    passes: list[Pass] = []
    sums: dict[int, list[int]] = {}

    def add(frame: Frame) -> None:
        asked = frame.request or frame
        if asked.pass_id < 0:
            return
        counted = sums.setdefault(asked.pass_id, [0, 0, 0, 0])
        counted[0] += 1
        counted[1 if frame.direction == UP else 2] += frame.bytes
        if asked is not frame:
            counted[3] += max(0, frame.time_ns - asked.end_ns)

    reading = Reading(paths, on_frame=add, on_pass=passes.append, **options)
    reading.run()
    first = reading.health.first_ns or 0
    rows = [
        (
            p.id, (p.start_ns - first) / 1e9, (p.end_ns - first) / 1e9, p.group.phase,
            p.context.id, p.context.is_head, p.rows, p.output_rows if p.output_rows >= 0 else None,
            p.kv_len or None, p.nodes or None, len(p.steps), *sums[p.id][:3], sums[p.id][3] / 1e6,
        )
        for p in sorted(passes, key=lambda p: p.id)
        if p.id in sums and reading.window.holds(p.start_ns)
    ]  # fmt: skip
    table: pd.DataFrame = pandas.DataFrame(rows, columns=list(_PASS_TYPES)).astype(_PASS_TYPES)
    return table


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed: pip install 'rpcwire[pandas]'") from None
    return pandas

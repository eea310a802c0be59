"""Tables of an analysis as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis

#: Parts of the JSON document that are tables: `phases` is keyed by its first column, `capture` and
#: `per_token` are one row.
TABLES = (
    "capture", "commands", "connections", "findings", "per_token", "phases", "requests", "roles",
    "workers",
)  # fmt: skip
_KEYS = {"phases": "phase"}


def table_csv(analysis: Analysis, table: str) -> str:
    """One of TABLES: a header line, then one line a row.

    Columns are the fields of the JSON document; those of an object in a field are joined to its
    name (`response_ms_median`), entries of a list are parted by "; ", an object deeper inside (the
    figures of a finding) is JSON. What is unknown is empty.
    """
    part = analysis.to_dict()[table]
    if table in _KEYS:
        part = [{_KEYS[table]: key, **fields} for key, fields in part.items()]
    elif isinstance(part, dict):
        part = [part]
    rows = [_flat(row) for row in part]
    columns = dict.fromkeys(name for row in rows for name in row)
    # An unknown object has a column of its own only if no row knows its fields.
    for name in [n for n in columns if any(c.startswith(f"{n}_") for c in columns)]:
        if all(row.get(name) is None for row in rows):
            del columns[name]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(columns), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells |= {f"{name}_{key}": _cell(inner) for key, inner in value.items()}
        else:
            cells[name] = _cell(value)
    return cells


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else value

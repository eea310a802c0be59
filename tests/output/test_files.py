"""Tables for other programs: CSV of the analysis, Parquet of the frames."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from bundled import analysis, capture

import rpcwire
from rpcwire.cli.run import run
from rpcwire.output.tables_csv import TABLES, table_csv

NAME = "v7.0-two-servers"
MTP = "v7.0-qwen35-mtp"


def _rows(table: str, name: str = MTP) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table_csv(analysis(name), table))))


def test_a_table_has_the_figures_of_the_document() -> None:
    a = analysis(MTP)
    assert [r["role"] for r in _rows("roles")] == [r.role for r in a.roles]
    assert {r["phase"]: int(r["bytes_up"]) for r in _rows("phases")} == {
        name: p.bytes_up for name, p in a.phases.items()
    }
    (one,) = _rows("per_token")
    assert float(one["bytes_up"]) == a.per_token.bytes_up
    assert [r["id"] for r in _rows("findings")] == [f["id"] for f in a.findings]


def test_objects_in_a_field_become_columns_and_lists_a_cell() -> None:
    commands = _rows("commands")
    known = {r["command"]: r for r in commands}["GET_TENSOR"]
    assert float(known["response_ms_min"]) <= float(known["response_ms_median"])
    assert "response_ms" not in known
    silent = {r["command"]: r for r in commands}["GRAPH_COMPUTE"]
    assert silent["response_ms_min"] == ""
    assert len(_rows("workers", NAME)) == 2


@pytest.mark.parametrize("table", TABLES)
def test_every_table_from_the_command_line(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", capture(NAME), "--csv", table]) == 0
    assert capsys.readouterr().out == table_csv(analysis(NAME), table)


def test_parquet_is_what_read_frames_reads(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "frames.parquet"
    assert run(["frames", capture(NAME), "--parquet", str(path)]) == 0
    written, read = pandas.read_parquet(path), rpcwire.read_frames(capture(NAME))
    assert list(written.columns) == list(read.columns)
    for column in read.columns:
        ours, theirs = read[column].tolist(), written[column].tolist()
        if column == "shape":
            theirs = [None if s is None else list(s) for s in theirs]
        blank = [pandas.isna(v) if not isinstance(v, list) else False for v in ours]
        assert blank == [pandas.isna(v) if not isinstance(v, list) else False for v in theirs]
        assert [v for v, b in zip(ours, blank, strict=True) if not b] == [
            v for v, b in zip(theirs, blank, strict=True) if not b
        ]
    assert str(written["role"].dtype) == "category"


def test_parquet_without_pyarrow_or_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(tmp_path / "no" / "x.parquet")
    assert run(["frames", capture(NAME), "--parquet", where]) == 2
    assert "cannot write" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert run(["frames", capture(NAME), "--parquet", where]) == 2
    assert "rpcwire[parquet]" in capsys.readouterr().err
    assert run(["frames", capture(NAME), "--parquet", where, "--csv"]) == 2
    assert run(["analyze", capture(NAME), "--json", "--csv", "roles"]) == 2

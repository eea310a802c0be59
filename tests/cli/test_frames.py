"""`rpcwire frames` as a command."""

from __future__ import annotations

import csv
import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bundled import NAMES, analysis, capture
from click.testing import CliRunner

import rpcwire
from rpcwire.cli.frames import command

TWO = capture("v7.0-llama-server")
CONTRACT = [
    "number", "time_s", "connection", "direction", "command", "bytes", "tensor", "tensor_type",
    "shape", "phase", "role", "device", "pass", "response_ms", "missing_bytes",
]  # fmt: skip


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke("--json", *arguments).splitlines()]


@pytest.mark.parametrize("name", NAMES[1::2])
def test_frames_are_the_analysis_in_full(name: str) -> None:
    schema = json.loads((files("rpcwire.data") / "schema" / "frames.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    found = rows(capture(name))
    for row in found[:: max(1, len(found) // 200)]:
        validator.validate(row)
    a = analysis(name)
    for phase, counted in a.phases.items():
        of_phase = [r for r in found if r["phase"] == phase]
        assert len(of_phase) == counted.frames
        up = sum(r["bytes"] for r in of_phase if r["direction"] == "up")
        assert up == counted.bytes_up
    for role in a.roles:
        assert sum(r["role"] == role.role for r in found) == role.frames
    for connection in a.connections:
        asked = [r for r in found if r["connection"] == connection.id and r["direction"] == "up"]
        assert len(asked) == connection.requests


def test_fields() -> None:
    first = rows(TWO)[0]
    assert list(first)[: len(CONTRACT)] == CONTRACT
    assert "file" not in first
    assert (first["command"], first["role"], first["phase"]) == ("HELLO", "probe", "load")
    assert first["direction"] == "up"
    assert first["response_ms"] == pytest.approx(0.069)
    assert first["pass"] is None


def test_responses_belong_to_requests() -> None:
    found = rows(TWO)
    reads = [r for r in found if r["command"] == "GET_TENSOR" and r["role"] == "logits"]
    asked = [r for r in reads if r["direction"] == "up" and r["phase"] == "decode"]
    given = [r for r in reads if r["direction"] == "down" and r["phase"] == "decode"]
    assert len(asked) == len(given) == 38
    assert all(r["response_ms"] > 0 for r in asked)
    assert all(r["response_ms"] is None for r in given)
    assert all(r["shape"] == [1024, 1, 1, 1] and r["tensor_type"] == "F32" for r in asked + given)
    assert all(r["bytes"] == 8 + 4 * 1024 for r in given)
    assert [r["pass"] for r in asked] == [r["pass"] for r in given]


def test_every_answered_request_has_its_response_time() -> None:
    for row in rows(TWO):
        if row["direction"] == "up" and row["command"] in (
            "HELLO",
            "ALLOC_BUFFER",
            "GET_ALIGNMENT",
        ):
            assert row["response_ms"] is not None


def test_csv_holds_the_same() -> None:
    table = list(csv.DictReader(io.StringIO(invoke("--csv", TWO))))
    lines = rows(TWO)
    assert len(table) == len(lines)
    assert list(table[0]) == list(lines[0])
    for cells, row in zip(table[::50], lines[::50], strict=True):
        assert int(cells["bytes"]) == row["bytes"]
        assert cells["shape"] == ("x".join(map(str, row["shape"])) if row["shape"] else "")
        assert cells["tensor"] == (row["tensor"] or "")


def test_text() -> None:
    lines = invoke(TWO).splitlines()
    assert lines[0].split()[:3] == ["PACKET", "TIME", "s"]
    assert len(lines) == len(rows(TWO)) + 1
    decode = next(line for line in lines if "decode" in line and "kv_mask" in line)
    assert "SET_TENSOR" in decode
    assert decode.endswith("  attn_inp_kq_mask F16 256")


def test_what_is_wrong_is_said_beside_the_frames(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap.gz"
    cut.write_bytes(Path(TWO).read_bytes()[:300_000])
    done = CliRunner().invoke(command, ["--json", str(cut)])
    assert done.exit_code == 0
    assert json.loads(done.stdout.splitlines()[0])["command"] == "HELLO"
    assert "rpcwire: " in done.stderr
    assert "the gzip data is cut off after 300,000 bytes" in done.stderr
    none = CliRunner().invoke(command, ["--json", "-p", "1", TWO])
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no ggml RPC was found" in none.stderr


def test_several_files_are_named(tmp_path: Path) -> None:
    other = capture("v4.0.1-llama-server")
    found = rows(TWO, other)
    assert {r["file"] for r in found} == {TWO, other}
    assert "file" in invoke("--csv", TWO, other).splitlines()[0]


def test_one_request() -> None:
    found = rows("--request", "2", TWO)
    a = rpcwire.analyze(TWO, request=2)
    assert sum(r["bytes"] for r in found) == a.capture.stream_bytes
    assert {r["phase"] for r in found} == {"prefill", "decode"}

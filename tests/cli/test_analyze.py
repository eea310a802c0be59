"""`rpcwire analyze` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundled import FOLDER, capture
from click.testing import CliRunner

from rpcwire.cli.analyze import command
from rpcwire.cli.options import Ports

TWO = capture("v7.0-llama-server")


def invoke(*arguments: str, data: bytes | None = None) -> str:
    result = CliRunner().invoke(command, arguments, input=data, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text() -> None:
    out = invoke(TWO)
    assert out.startswith("llama.cpp RPC 7.0.0 with 1 worker")
    assert "COMMAND" not in out
    assert "COMMAND" in invoke("-v", TWO)


def test_json() -> None:
    document = json.loads(invoke("--json", TWO))
    assert document["schema_version"] == 1
    assert document["capture"]["files"] == [TWO]
    assert [r["generated_tokens"] for r in document["requests"]] == [24, 16]
    assert document["model"] is None


def test_gguf() -> None:
    model = str(FOLDER / "micro-llama.header.gguf")
    document = json.loads(invoke("--json", "--gguf", model, TWO))
    assert document["model"]["hidden_size"] == 256
    assert document["model"]["floor_bytes_per_token"] == 512
    assert "The 16-bit floor" in invoke("--gguf", model, TWO)


def test_ports_are_a_filter() -> None:
    everything = json.loads(invoke("--json", TWO))
    same = json.loads(invoke("--json", "-p", "40000-50060", "-p", "1", TWO))
    assert same["capture"] == everything["capture"]
    none = json.loads(invoke("--json", "--port", "80,443", TWO))
    assert none["connections"] == []
    assert none["capture"]["other_connections"] == len(everything["connections"])
    assert none["capture"]["other_bytes"] >= everything["capture"]["stream_bytes"]


def test_standard_input() -> None:
    whole = json.loads(invoke("--json", TWO))
    piped = json.loads(invoke("--json", "-", data=Path(TWO).read_bytes()))
    assert piped["capture"].pop("files") == ["standard input"]
    del whole["capture"]["files"]
    assert piped == whole


def test_several_files_are_one_run(tmp_path: Path) -> None:
    """A capture cut in two files between packets."""
    import gzip

    whole = gzip.decompress(Path(TWO).read_bytes())
    at, half = 24, len(whole) // 2
    while at < half:
        at += 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
    parts = [tmp_path / "run.pcap0", tmp_path / "run.pcap1"]
    parts[0].write_bytes(whole[:at])
    parts[1].write_bytes(whole[:24] + whole[at:])
    one = json.loads(invoke("--json", TWO))
    two = json.loads(invoke("--json", *map(str, parts)))
    assert two["capture"].pop("files") == list(map(str, parts))
    del one["capture"]["files"]
    del one["findings"], two["findings"]  # they name packets, which are numbered in their file
    assert two == one


@pytest.mark.parametrize(
    ("text", "ports"),
    [("50052", {50052}), ("1-3", {1, 2, 3}), ("5,7-8", {5, 7, 8}), ("65535", {65535})],
)
def test_ports(text: str, ports: set[int]) -> None:
    assert Ports().convert(text, None, None) == ports

"""`rpcwire diagnose` and `rpcwire compare` from the command line."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from rpcwire.cli.run import run
from tests.findings.lab import path


def schema(name: str):
    source = resources.files("rpcwire.data").joinpath(f"schema/{name}.json")
    return json.loads(source.read_text("utf-8"))


@pytest.mark.parametrize(
    "name", ["v7.0-qwen35-mtp", "v7.0-two-servers", "version-mismatch", "snap-96", "one-sided"]
)
def test_diagnose_json_is_what_the_schema_says(name: str, capsys) -> None:
    assert run(["diagnose", path(name), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("diagnose"))
    assert document["schema_version"] == 1


def test_compare_json_is_what_the_schema_says(capsys) -> None:
    for a, b in (
        ("v7.0-qwen35-plain", "v7.0-qwen35-mtp"),
        ("ssh-client-side", "ssh-worker-side"),
        ("version-mismatch", "v7.0-qwen3moe"),
    ):
        assert run(["compare", path(a), path(b), "--json"]) == 0
        jsonschema.validate(json.loads(capsys.readouterr().out), schema("compare"))


@pytest.mark.parametrize(
    ("name", "level", "status"),
    [
        ("v7.0-qwen3moe", "warning", 0),
        ("v7.0-qwen3moe", "problem", 0),
        ("kv-q8", "warning", 1),
        ("kv-q8", "problem", 0),
        ("experts-on-client", "problem", 1),
    ],
)
def test_fail_on(name: str, level: str, status: int, capsys) -> None:
    assert run(["diagnose", path(name), "--fail-on", level]) == status
    assert capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["-v"]])
@pytest.mark.parametrize("name", ["v7.0-mtp-partial", "experts-on-client", "version-mismatch"])
def test_text_fits_a_terminal(name: str, arguments: list[str], capsys) -> None:
    assert run(["diagnose", path(name), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)


def test_compare_text_fits_a_terminal(capsys) -> None:
    assert run(["compare", path("v7.0-qwen35-plain"), path("v7.0-qwen35-mtp")]) == 0
    out = capsys.readouterr().out
    assert "graph" in out
    assert all(len(line) <= 80 for line in out.splitlines() if "/" not in line)


def test_a_stated_link(capsys) -> None:
    assert run(["diagnose", path("v7.0-qwen3moe"), "--link", "wifi6", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["link"]["rtt_source"] == "stated"
    assert not document["link"]["recorded"]
    assert "latency-bound" in {f["id"] for f in document["findings"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--link", "carrier-pigeon"],
        ["--link", "1gbe", "--rtt", "1ms"],
        ["--bandwidth", "1gbit"],
        ["--fail-on", "everything"],
    ],
)
def test_bad_usage(arguments: list[str], capsys) -> None:
    assert run(["diagnose", path("v7.0-qwen3moe"), *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_part_of_a_run(capsys) -> None:
    assert run(["diagnose", path("v7.0-llama-server"), "--request", "1", "--json"]) == 0
    part = json.loads(capsys.readouterr().out)
    assert run(["diagnose", path("v7.0-llama-server"), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert 0 < part["tokens"] < whole["tokens"]
    assert "prompt-cache-save" not in {f["id"] for f in part["findings"]}


def test_analyze_holds_the_same_findings(capsys) -> None:
    assert run(["analyze", path("v7.0-qwen35-mtp"), "--json"]) == 0
    analysis = json.loads(capsys.readouterr().out)
    assert run(["diagnose", path("v7.0-qwen35-mtp"), "--json"]) == 0
    assert analysis["findings"] == json.loads(capsys.readouterr().out)["findings"]


def test_packets_of_several_files_are_named_with_their_file(capsys) -> None:
    files = [path("v7.0-qwen3moe"), path("v7.0-output-local")]
    assert run(["diagnose", *files, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("diagnose"))
    evidence = [f["evidence"] for f in document["findings"]]
    assert all(len(e["files"]) == len(e["frames"]) for e in evidence)
    assert {name for e in evidence for name in e["files"]} <= set(document["files"])
    assert all(0 < number < 1_000_000 for e in evidence for number in e["frames"])
    assert run(["diagnose", *files, "-v"]) == 0
    assert "of v7.0-qwen3moe" in capsys.readouterr().out.replace("\n  ", " ")


def test_a_capture_without_rpc_is_not_called_healthy(capsys) -> None:
    assert run(["diagnose", path("v7.0-qwen3moe"), "-p", "9"]) == 0
    assert "No connection speaks ggml RPC" in capsys.readouterr().out

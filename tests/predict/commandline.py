"""Runs the command as a shell would: exit status, standard output and error."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jsonschema

from rpcwire.cli.run import run as run_line


@dataclass(frozen=True)
class Result:
    exit_code: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Result:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run_line(["predict", *arguments])
    out.seek(0)
    return Result(status, out.read(), err.getvalue())


def document(*arguments: str) -> dict[str, Any]:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    text = resources.files("rpcwire.data").joinpath("schema/predict.json").read_text("utf-8")
    jsonschema.validate(found, json.loads(text))
    return found

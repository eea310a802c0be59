"""Runs the command as a shell would: exit status, standard output and error."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

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

"""The captures in captures/, each with what the programs themselves counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import rpcwire
from rpcwire import Analysis

FOLDER = Path(__file__).parent.parent / "captures"
CAPTURES = sorted(FOLDER.glob("*.pcap.gz"))
NAMES = [path.name.removesuffix(".pcap.gz") for path in CAPTURES]


def capture(name: str) -> str:
    """Path of a bundled capture."""
    return str(FOLDER / f"{name}.pcap.gz")


def told(name: str) -> dict[str, Any]:
    """What the programs reported of a run."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


@cache
def analysis(name: str) -> Analysis:
    """The accounts of a capture; read once for all tests, so not to be changed."""
    return rpcwire.analyze(capture(name))


def counts(name: str) -> list[tuple[int | None, ...]]:
    """(prompt, generated, drafted, accepted) tokens of each request, as the server counted."""
    report = told(name)
    if report.get("program") == "llama-bench":
        return [(64, 1, None, None), (1, 16, None, None)]
    keys = ("prompt_n", "predicted_n", "draft_n", "draft_n_accepted")
    return [tuple(r.get(key) for key in keys) for r in report["requests"]]


def tshark(name: str, *arguments: str) -> list[list[str]]:
    """Rows of fields that tshark prints of a capture; it must be there."""
    program = shutil.which("tshark")
    assert program is not None
    out = subprocess.run(
        [program, "-n", "-r", capture(name), *arguments],
        capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, "WIRESHARK_RUN_FROM_BUILD_DIRECTORY": ""},
    ).stdout  # fmt: skip
    return [line.split("\t") for line in out.splitlines()]

"""Milliseconds per token over emulated links, with one constant a model for computing.

`sweep.json`: medians of recorded runs of llama.cpp b11434 between two network namespaces. The
emulator counts whole Ethernet frames, so a stream gets 1448 of 1538 bytes of its rate.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from statistics import median

from rpcwire.links.transfer import legs, link_time
from rpcwire.models.flags import parse_command_line
from rpcwire.models.gguf import read_gguf
from rpcwire.predict.run import predict_run
from rpcwire.predict.scenario import make_scenario

HERE = Path(__file__).parent
SWEEP = json.loads((HERE / "sweep.json").read_text("utf-8"))["runs"]


def test_time_over_links_up_to_a_gigabit() -> None:
    errors = []
    for name in ("llama512.gguf", "micro-qwen35.gguf"):
        runs = [run for run in SWEEP if run["model"] == name and run["mbit_s"] <= 1000]
        first = runs[0]
        scenario = make_scenario(
            read_gguf(HERE / "models" / name),
            parse_command_line(["--rpc", "w", *shlex.split(first["llama_server_args"])]),
            depth=first["prompt_tokens"] + first["generated_tokens"] // 2,
        )
        run = predict_run(scenario)
        exchanges = run.round.exchanges if run.round is not None else run.decode.exchanges
        parts = legs((e.up, e.down, e.waits) for e in exchanges)
        network = [
            1e3
            * link_time(parts, one["ping_ms"] / 1e3, one["mbit_s"] * 1e6 / 8 * 1448 / 1538).total
            for one in runs
        ]
        measured = [one["decode_ms_per_token"] for one in runs]
        constant = median(m - n for m, n in zip(measured, network, strict=True))
        errors += [
            max(abs(n + constant - m) - 0.3, 0.0) / m
            for m, n in zip(measured, network, strict=True)
        ]
    assert len(errors) == 12
    assert median(errors) <= 0.04
    assert max(errors) <= 0.12

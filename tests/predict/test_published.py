"""Cases that users published: docs/predict.md shows the same figures and says where they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .commandline import run

HERE = Path(__file__).parent / "published"
QWEN = "--quant 5.0 --rpc w -ts 6,4 --gpu RPC0=rtx-4060-ti --gpu CUDA0=rtx-5060-ti --depth 1000"
SPARK4 = "--gpu RPC0=strix-halo --gpu RPC1=strix-halo --gpu RPC2=strix-halo"
GLM = "--rpc a,b,c --baseline 60.2 --protocol 4.0 --bandwidth 10gbit --rtt"


def document(model: str, words: str) -> dict[str, Any]:
    result = run("--json", "-m", str(HERE / f"{model}.json"), *words.split())
    assert result.exit_code == 0, result.stderr
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def speeds(model: str, words: str) -> dict[str, float]:
    found: dict[str, float] = document(model, words)["links"][0]["decode"]["tokens_per_s"]
    return found


@pytest.mark.parametrize(
    ("model", "words", "reported"),
    [
        ("qwen3.8-27b", f"{QWEN} --link 1gbe+ssh", 16.9),
        (
            "gemma-4-31b",
            "--quant 4.4 --rpc w -ts 1,1 --gpu RPC0=rtx-5060-ti --gpu CUDA0=rtx-4080 -c 8192 "
            "--depth 500 --link 1gbe",
            26.0,
        ),
    ],
)
def test_middle_within_a_fifth(model: str, words: str, reported: float) -> None:
    found = speeds(model, words)
    assert found["low"] <= reported <= found["high"]
    assert found["mid"] == pytest.approx(reported, rel=0.2)


@pytest.mark.parametrize(
    ("model", "words", "reported"),
    [
        ("qwen3.8-27b", f"{QWEN} --link 1gbe+ssh --spec-type draft-mtp --acceptance 0.8", 35.0),
        ("qwen3.8-27b", f"{QWEN} --link 1gbe+ssh --spec-type draft-mtp --acceptance 0.45", 23.0),
        (
            "gpt-oss-120b",
            "--quant mxfp4 --protocol 2.0 -fa on --rpc w -dev CUDA0 --gpu CUDA0=strix-halo "
            "--link 1gbe",
            33.50,
        ),
        (
            "gpt-oss-120b",
            "--quant mxfp4 --protocol 2.0 -fa on --rpc w -ts 1,1 --gpu RPC0=strix-halo "
            "--gpu CUDA0=strix-halo --link 1gbe",
            28.87,
        ),
        (
            "gpt-oss-120b",
            f"--quant mxfp4 --protocol 2.0 -fa on --rpc a,b,c -ts 1,1,1,1 {SPARK4} "
            "--gpu CUDA0=strix-halo --link 1gbe",
            21.61,
        ),
        (
            "tinyllama-1.1b",
            "--quant f16 --rpc w --baseline 60 --protocol none --link 1gbe",
            42.0,
        ),
        ("glm-4.7-flash", f"{GLM} 0ms", 60.2),
        ("glm-4.7-flash", f"{GLM} 5ms", 30.1),
        ("glm-4.7-flash", f"{GLM} 20ms", 12.6),
    ],
)
def test_reported_figure_lies_in_the_range(model: str, words: str, reported: float) -> None:
    found = speeds(model, words)
    assert found["low"] <= reported <= found["high"]


def test_experts_on_the_client_cost_most_of_a_token() -> None:
    words = "--quant iq4_xs --rpc w -ot exps=CPU --baseline 3.3 --protocol 2.0 --link 1gbe"
    found = document("deepseek-r1", words)
    assert found["links"][0]["decode"]["tokens_per_s"]["mid"] == pytest.approx(1.0, rel=0.25)
    assert found["links"][0]["limited_by"] == "bandwidth"
    assert found["decode"]["round_trips_per_token"] >= 116


@pytest.mark.parametrize(
    ("model", "layers", "hidden"), [("qwen3-235b-a22b", 94, 4096), ("qwen3-30b-a3b", 48, 2048)]
)
def test_textbook_floor(model: str, layers: int, hidden: int) -> None:
    words = "--rpc w -dev CUDA0,RPC0 -ts 1,1 --membw CUDA0=500 --membw RPC0=500 --link 1gbe"
    found = document(model, words)
    assert (found["model"]["layers"], found["model"]["hidden_size"]) == (layers, hidden)
    assert found["decode"]["floor_bytes_per_token"] == 2 * hidden  # one boundary, 16 bits
    assert 512 * 2 * hidden == {4096: 4 << 20, 2048: 2 << 20}[hidden]
    crossing = found["decode"]["bytes_up_per_token"] + found["decode"]["bytes_down_per_token"]
    assert crossing > 40 * 2 * hidden  # logits of the output layer on the worker

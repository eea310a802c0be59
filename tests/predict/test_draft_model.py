"""Rounds with a draft model of its own, against rounds of recorded runs (b11434).

Bytes up and down of the usual round of three drafts, counted from the frames of each capture; 80
and 126 prompt tokens.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rpcwire.models.flags import parse_command_line
from rpcwire.models.gguf import read_gguf
from rpcwire.predict.hardware import read_hardware
from rpcwire.predict.load import predict_load
from rpcwire.predict.prediction import predict
from rpcwire.predict.run import predict_run
from rpcwire.predict.scenario import Scenario, make_scenario

MODELS = Path(__file__).parent / "models"
TARGET = "micro-llama.gguf"


def scenario(words: str, draft: str) -> Scenario:
    flags = parse_command_line(
        [*shlex.split(words), "-md", draft, "--spec-type", "draft-simple", "-c", "4096"]
    )
    return make_scenario(
        read_gguf(MODELS / TARGET), flags, depth=100, draft=read_gguf(MODELS / draft)
    )


@pytest.mark.parametrize(
    ("words", "draft", "up", "down", "trips"),
    [
        ("--rpc a", "llama-f16-h64.gguf", 238_508, 32_808, 5),
        ("--rpc a", TARGET, 376_060, 32_808, 5),
        ("--rpc a,b -dev RPC0 -devd RPC1", TARGET, 269_228, 32_808, 5),
        ("--rpc a -devd none", TARGET, 17_624, 16_392, 1),
    ],
)
def test_rounds_are_exact(words: str, draft: str, up: int, down: int, trips: int) -> None:
    one = predict_run(scenario(words, draft)).round
    assert one is not None
    exchanges = one.exchanges
    assert (sum(e.up for e in exchanges), sum(e.down for e in exchanges)) == (up, down)
    assert sum(e.waits for e in exchanges) == trips


def test_earlier_builds_read_every_row_of_the_catch_up() -> None:
    words = ["--rpc", "a", "-md", TARGET, "--spec-type", "draft-simple", "-c", "4096"]
    target = read_gguf(MODELS / TARGET)
    split = make_scenario(
        target, parse_command_line(words), protocol="4.0.1", depth=60, draft=target
    )
    one = predict_run(split).round
    assert one is not None
    up, down = (sum(getattr(e, way) for e in one.exchanges) for way in ("up", "down"))
    assert (up, down) == (344_228, 45_096)  # recorded


def test_both_models_are_loaded() -> None:
    both = scenario("--rpc a", "llama-f16-h64.gguf")
    assert both.draft is not None
    alone = predict_load(both.draft).up
    assert (
        predict_load(both).up
        == alone
        + predict_load(
            make_scenario(both.model, parse_command_line(["--rpc", "a", "-c", "4096"]))
        ).up
    )


def test_drafting_with_a_model_as_large_does_not_pay() -> None:
    hardware = read_hardware((), ("RPC0=300",), None)
    result = predict(scenario("--rpc a", TARGET), hardware, [], acceptance=0.5)
    assert result.tokens_per_round == 2.5
    assert result.compute is not None

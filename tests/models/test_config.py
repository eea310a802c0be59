"""config.json: dimensions and estimated sizes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.errors import ModelError
from rpcwire.models.config import read_config
from rpcwire.models.gguf import read_gguf

TESTS = Path(__file__).parents[1] / "predict"
PUBLISHED = TESTS / "published"


def read(name: str, quant: str = "q4_k_m") -> bytes:
    del quant
    return (PUBLISHED / f"{name}.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "quant", "gib"),
    [
        ("qwen3.8-27b", "q4_k_m", 15.93),  # sizes that were published
        ("gpt-oss-120b", "mxfp4", 60.87),
        ("tinyllama-1.1b", "f16", 2.05),
        ("qwen2.5-7b", "q4_k_m", 4.36),
    ],
)
def test_sizes_come_near_published_files(name: str, quant: str, gib: float) -> None:
    assert read_config(read(name), quant).file_bytes / (1 << 30) == pytest.approx(gib, rel=0.04)


def test_recurrent_state_of_qwen35() -> None:
    model = read_config(read("qwen3.8-27b"))
    state = 4 * (model.conv_state + model.ssm_state) * sum(model.recurrent)
    assert state / (1 << 20) == pytest.approx(149.62, abs=0.01)  # as llama.cpp reports it
    assert model.mtp_layers == 1


def test_the_tensors_are_those_of_the_gguf_file() -> None:
    """A config of the dimensions of a recorded model gives that model's tensor table."""
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 768,
        "moe_intermediate_size": 256,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 1024,
    }
    made = read_config(json.dumps(config).encode(), "q4_0")
    real = read_gguf(TESTS / "models" / "micro-qwen3moe.gguf")
    assert {t.name: t.shape for t in made.tensors} == {t.name: t.shape for t in real.tensors}
    assert made.kv_heads == real.kv_heads
    sizes = {t.name: t.bytes for t in real.tensors}
    assert all(t.bytes == pytest.approx(sizes[t.name], rel=0.01) for t in made.tensors)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model_type": "resnet"}',
        b'{"model_type": "llama"}',
        b"\xff",
        b"[" * 9000,
    ],
)
def test_not_a_config(data: bytes) -> None:
    with pytest.raises(ModelError):
        read_config(data)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "head_dim",
                "vocab_size",
                "num_experts",
                "sliding_window",
                "num_key_value_heads",
                "model_type",
            ]
        ),
        st.one_of(
            st.none(),
            st.integers(-9, 99),
            st.text(max_size=3),
            st.booleans(),
            st.lists(st.integers()),
        ),
    )
)
def test_any_values_give_a_model_or_our_error(odd: dict[str, object]) -> None:
    config = {**json.loads(read("qwen3-30b-a3b")), **odd}
    with suppress(ModelError):
        read_config(json.dumps(config).encode())

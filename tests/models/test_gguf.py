"""Models from GGUF files: whole, cut behind the tensor table, split."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcwire.errors import ModelError
from rpcwire.models.gguf import read_gguf
from rpcwire.models.header import Header
from rpcwire.models.load import load_model
from rpcwire.models.model import build_model

from .ggufbytes import gguf

HEADS = Path(__file__).parents[1] / "predict" / "models"
LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.feed_forward_length": 128,
    "llama.context_length": 512,
}
TABLE = [("token_embd.weight", (64, 100), 0, 0), ("blk.0.attn_q.weight", (64, 64), 0, 25_600)]


def test_a_file_that_ends_behind_its_tensor_table() -> None:
    model = read_gguf(HEADS / "micro-qwen35.gguf")
    assert (model.arch, model.layers, model.mtp_layers, model.hidden_size) == ("qwen35", 8, 1, 256)
    assert model.vocab_size == 1024
    assert model.recurrent == (True, True, True, False, True, True, True, False, False)
    assert (model.conv_state, model.ssm_state) == (3072, 32768)
    assert model.positions == 4
    assert model.file_bytes == pytest.approx(5_735_040, abs=700_000)  # vocabulary left out here


def test_sliding_windows_follow_the_family() -> None:
    gemma = read_gguf(HEADS / "gemma3-swa.gguf")
    assert gemma.sliding == (True, True, True, True, True, False, True)
    assert gemma.window == 256
    assert read_gguf(HEADS / "gptoss.gguf").sliding == (True, False) * 3
    assert not any(read_gguf(HEADS / "micro-llama.gguf").sliding)


def split(folder: Path, parts: int = 2) -> list[Path]:
    paths = []
    for number in range(parts):
        meta: dict[str, object] = {"split.no": number, "split.count": parts}
        meta |= {"split.tensors.count": len(TABLE)}
        if number == 0:
            meta |= LLAMA
        path = folder / f"m-{number + 1:05d}-of-{parts:05d}.gguf"
        path.write_bytes(gguf(meta, TABLE[number : number + 1]))
        paths.append(path)
    return paths


def test_any_part_of_a_split_file_opens_all(tmp_path: Path) -> None:
    for path in split(tmp_path):
        model = read_gguf(path)
        assert [tensor.name for tensor in model.tensors] == [row[0] for row in TABLE]
        assert model.vocab_size == 100


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first, second = split(tmp_path)
    second.unlink()
    with pytest.raises(ModelError, match=second.name):
        read_gguf(first)
    renamed = first.rename(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="part"):
        read_gguf(renamed)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all, just words"])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError):
        read_gguf(path)
    with pytest.raises(ModelError):
        load_model(str(tmp_path / "missing.gguf"))


values = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.text(max_size=2)),
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(LLAMA)[1:]), values),
    st.sampled_from(["llama", "gemma3", "qwen35", "jamba", "mamba"]),
)
def test_any_metadata_gives_a_model_or_our_error(odd: dict[str, object], arch: str) -> None:
    meta = {"general.architecture": arch}
    for key, item in {**LLAMA, **odd}.items():
        if key != "general.architecture":
            meta[key.replace("llama", arch)] = item  # type: ignore[assignment]
    header = Header(3, False, meta)  # type: ignore[arg-type]
    with suppress(ModelError):
        build_model(header.metadata, (), 0)

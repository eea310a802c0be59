"""Flags and placement, with the meaning that llama.cpp gives them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rpcwire.errors import UsageError
from rpcwire.models.flags import parse_command_line
from rpcwire.models.gguf import read_gguf
from rpcwire.models.placement import Placement, parse_split, place

HEADS = Path(__file__).parents[1] / "predict" / "models"
LLAMA = read_gguf(HEADS / "micro-llama.gguf")  # 8 layers
MOE = read_gguf(HEADS / "micro-qwen3moe.gguf")  # 6 layers


def placed(words: str, local: tuple[str, ...] = (), **more: bool) -> Placement:
    return place(LLAMA, parse_command_line(shlex.split(words)), list(local), **more)


def names(placement: Placement) -> list[str]:
    return [placement.devices[number].name for number in placement.layers]


def test_workers_come_first_then_local_devices() -> None:
    placement = placed("--rpc a:1,b:2 -ts 1,1,1", ("CUDA0",))
    assert [d.name for d in placement.devices] == ["RPC0", "RPC1", "CUDA0", "CPU"]
    # 9 places (8 layers and the output layer) in three equal parts
    assert names(placement) == ["RPC0"] * 3 + ["RPC1"] * 3 + ["CUDA0"] * 2
    assert placement.devices[placement.output].name == "CUDA0"
    assert placement.boundaries() == 3


def test_dev_sets_the_order() -> None:
    placement = placed("--rpc a:1 -dev CUDA0,RPC0 -ts 1/1")
    assert names(placement) == ["CUDA0"] * 5 + ["RPC0"] * 3
    assert placement.devices[placement.output].name == "RPC0"


def test_a_short_split_is_padded_with_zeros() -> None:
    placement = placed("--rpc a,b -ts 1")
    assert set(names(placement)) == {"RPC0"}
    assert "pads" in placement.warnings[0]
    assert parse_split("3/1", 2) == ([3.0, 1.0], [])


def test_the_output_layer_counts_as_one_more() -> None:
    assert names(placed("--rpc a -ngl 4")) == ["CPU"] * 5 + ["RPC0"] * 3
    assert placed("--rpc a -ngl 4").output == 0
    # builds up to summer 2025 took it last
    old = placed("--rpc a -ngl 4", output_first=False)
    assert names(old) == ["CPU"] * 4 + ["RPC0"] * 4
    assert old.devices[old.output].name == "CPU"
    assert placed("--rpc a -ngl 0").boundaries() == 0
    assert placed("--rpc a -ngl 99").boundaries() == 1


def test_overrides_are_searched_in_order() -> None:
    placement = placed(r"--rpc a:1 -ot 'blk\.[13]\.attn.*=CPU,^output=CPU' -ot 'attn_q=RPC0[a:1]'")
    assert placement.device_of("blk.1.attn_q.weight") == placement.cpu
    assert placement.device_of("blk.2.attn_q.weight") == 0
    assert placement.device_of("output_norm.weight") == placement.cpu
    assert placement.device_of("token_embd.weight") == placement.cpu


def test_experts_on_the_client() -> None:
    flags = parse_command_line(["--rpc", "a", "-ncmoe", "2"])
    placement = place(MOE, flags, [])
    assert placement.device_of("blk.1.ffn_down_exps.weight") == placement.cpu
    assert placement.device_of("blk.2.ffn_down_exps.weight") == 0
    assert placement.device_of("blk.1.ffn_gate_inp.weight") == 0


def test_weights_are_counted_once() -> None:
    placement = placed("--rpc a,b -ts 1,1")
    assert sum(placement.weight_bytes()) == sum(tensor.bytes for tensor in LLAMA.tensors)


@pytest.mark.parametrize(
    "words",
    [
        "--rpc a -dev RPC7x",
        "--rpc a -ts x",
        "--rpc a -ts -1,2",
        "--rpc a -ngl many",
        "--rpc a -ot blk",
        "--rpc a -ot '(=CPU'",
        "--rpc a -ot x=NOWHERE",
        "--rpc a -sm none -mg 4",
    ],
)
def test_what_llama_cpp_refuses(words: str) -> None:
    with pytest.raises(UsageError):
        placed(words)


def test_the_same_worker_twice_is_one() -> None:
    assert len(placed("--rpc a:1,a:1").devices) == 2


def test_a_pasted_line_of_each_program() -> None:
    server = parse_command_line(
        shlex.split("LLAMA_ARG_N_GPU_LAYERS=12 ./llama-server -m 'a b.gguf' --rpc=h:1 -fa -c 8192")
    )
    assert (server.model, server.gpu_layers, server.rpc) == ("a b.gguf", "12", ["h:1"])
    assert (server.flash_attn, server.ctx_size, server.bench) == ("on", 8192, False)
    bench = parse_command_line(["llama-bench -m x -ts 3/1 -fa 0,1 -nkvo 0 -ub 128,256 -p 512 -r 3"])
    assert (bench.bench, bench.tensor_split, bench.flash_attn) == (True, "3/1", "0,1")
    assert (bench.ubatch, bench.no_kv_offload, bench.bench_prompt) == (128, False, "512")
    assert bench.ignored == ["-r"]
    lines = parse_command_line(["llama-cli \\\n  -m y \\\n --rpc h -ngl 99 --no-warmup -n 8"])
    assert (lines.model, lines.gpu_layers) == ("y", "99")
    with pytest.raises(UsageError):
        parse_command_line(["-m"])
    with pytest.raises(UsageError):
        parse_command_line(["-c", "big"])
    with pytest.raises(UsageError):
        parse_command_line(["llama-server -m 'open"])

"""Models of any family and shape: a prediction or our own error, in bounded time."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcwire.errors import RpcwireError
from rpcwire.models.flags import parse_command_line
from rpcwire.models.header import TensorInfo
from rpcwire.models.model import build_model
from rpcwire.predict.run import predict_run
from rpcwire.predict.scenario import make_scenario

ARCHES = ["llama", "qwen35", "gemma2", "gpt-oss", "mamba", "rwkv7", "jamba", "deepseek2", "dots1"]
NAMES = [
    "attn_norm.weight",
    "attn_q.weight",
    "attn_q.bias",
    "attn_k.weight",
    "attn_v.weight",
    "attn_qkv.weight",
    "attn_output.weight",
    "attn_q_norm.weight",
    "attn_kv_a_mqa.weight",
    "attn_q_b.weight",
    "ffn_norm.weight",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_exps.weight",
    "ffn_gate_up_exps.weight",
    "ffn_down_exps.weight",
    "ffn_down_shexp.weight",
    "ssm_a",
    "ssm_out.weight",
    "ssm_conv1d.weight",
    "nextn.eh_proj.weight",
]
FLAGS = [
    "--rpc a,b -ts 1,2",
    "--rpc a -ngl 2 --protocol-less",
    "--rpc a -ot attn=CPU -np 3",
    "--rpc a -nkvo -fa off",
    "--rpc a -ctk q8_0 -ctv q8_0 -fa on --spec-type draft-mtp",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    arch=st.sampled_from(ARCHES),
    present=st.sets(st.sampled_from(NAMES)),
    numbers=st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 8), st.integers(0, 9)),
    flags=st.sampled_from(FLAGS),
    protocol=st.sampled_from(["none", "2.0", "3.6", "5.1", "7.0", "9.0"]),
)
def test_any_tensor_table(
    arch: str, present: set[str], numbers: tuple[int, ...], flags: str, protocol: str
) -> None:
    layers, heads, experts, used = numbers
    metadata = {
        "general.architecture": arch,
        f"{arch}.block_count": layers + 1,
        f"{arch}.nextn_predict_layers": 1 if "nextn.eh_proj.weight" in present else 0,
        f"{arch}.embedding_length": 64,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": heads,
        f"{arch}.feed_forward_length": 128,
        f"{arch}.expert_count": experts,
        f"{arch}.expert_used_count": used,
        f"{arch}.attention.sliding_window": 64,
        f"{arch}.vocab_size": 100,
    }
    tensors = [TensorInfo("token_embd.weight", 0, (64, 100), 25_600)]
    for layer in range(layers + 1):
        tensors += [TensorInfo(f"blk.{layer}.{n}", 2, (64, 64), 2304) for n in sorted(present)]
    with suppress(RpcwireError):
        model = build_model(metadata, tuple(tensors), 1)  # type: ignore[arg-type]
        words = parse_command_line(flags.split())
        run = predict_run(make_scenario(model, words, protocol=protocol, prompt=700))
        assert run.decode.up >= 0
        assert len(run.prefill) >= 2

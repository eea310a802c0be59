"""The command as its users see it: words, JSON, exit status, chart."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .commandline import document, run

HERE = Path(__file__).parent
MODEL = str(HERE / "models" / "micro-llama.gguf")
HEAD = str(HERE / "models" / "micro-qwen35.gguf")
SPLIT = ["-m", MODEL, "--rpc", "10.0.0.2,10.0.0.3", "-ts", "1,1", "-c", "4096"]
GPUS = ["--gpu", "RPC0=rtx-3060", "--membw", "RPC1=200"]


@pytest.mark.parametrize(
    "arguments",
    [
        SPLIT,
        [*SPLIT, *GPUS],
        [*SPLIT, "--baseline", "50", "--link", "wifi6"],
        ["-m", HEAD, "--rpc", "w", "--spec-type", "draft-mtp", "--acceptance", "0.7"],
        ["-m", MODEL, "--rpc", "w", "-np", "4", "--protocol", "none", "-fa", "on"],
        ["-m", MODEL, "--rpc", "w", "-ngl", "0"],
    ],
)
def test_the_document_follows_its_schema(arguments: list[str]) -> None:
    found = document(*arguments)
    step = found["decode"]
    assert sum(row["bytes_up"] for row in step["roles"]) == step["bytes_up_per_token"]
    assert sum(row["bytes_down"] for row in step["roles"]) == step["bytes_down_per_token"]
    assert all(row["source"] for row in found["assumptions"])


def test_one_split_in_figures() -> None:
    found = document(*SPLIT, *GPUS, "--link", "1gbe")
    first, second, cpu = found["placement"]
    assert (first["layers"], second["layers"], cpu["layers"]) == (5, 3, 0)
    assert [row["output_layer"] for row in found["placement"]] == [False, True, False]
    assert found["decode"]["round_trips_per_token"] == 2
    assert found["decode"]["floor_bytes_per_token"] == 2 * 256 * 2
    link = found["links"][0]
    assert link["decode"]["network_ms_per_token"] == pytest.approx(0.65, abs=0.1)
    assert link["verdict"] == "not enough"  # the model is tiny, the link is not
    assert link["limited_by"] == "latency"


def test_without_machines_speed_is_unknown() -> None:
    found = document(*SPLIT, "--rtt", "0.3ms", "--bandwidth", "940mbit")
    (link,) = found["links"]
    assert (link["link"], link["rtt_ms"], link["mbit_s"]) == ("given", 0.3, 940)
    assert link["decode"]["tokens_per_s"] is None
    assert link["verdict"] == "unknown"
    assert link["decode"]["ceiling_tokens_per_s"] > 0


@pytest.mark.parametrize("extra", [[], GPUS, ["--link", "1gbe", "--link", "10gbe", *GPUS]])
def test_words_fit_into_80_columns(extra: list[str]) -> None:
    result = run(*SPLIT, *extra)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)
    assert "Placement:" in lines
    assert "tokens/s" in result.stdout


@pytest.mark.parametrize(
    ("baseline", "words"),
    [("30", "is enough"), ("200", "limits you"), ("3000", "is not enough")],
)
def test_the_verdict_comes_first(baseline: str, words: str) -> None:
    result = run("-m", MODEL, "--rpc", "w", "--link", "100mbe", "--baseline", baseline)
    assert result.stdout.startswith(f"100 Mbit Ethernet {words}: ")


def test_without_machines_or_workers() -> None:
    unknown = run("-m", MODEL, "--rpc", "w", "--link", "100mbe")
    assert unknown.stdout.startswith("Unknown whether 100 Mbit Ethernet is enough")
    nothing = run("-m", MODEL, "--rpc", "w", "-dev", "CUDA0", "--link", "100mbe")
    assert "nothing crosses" in nothing.stdout


def test_figures_are_written_out() -> None:
    slow = run(*SPLIT, "--prompt", "9", "--rtt", "5s", "--bandwidth", "1kbit", "--baseline", "9")
    assert "e+" not in slow.stdout


def test_warnings_go_to_standard_error() -> None:
    result = run("--json", "-m", MODEL, "--rpc", "a,b", "-ts", "1", "--link", "1gbe")
    assert result.stderr.startswith("rpcwire: -ts 1 names 1 of 2 devices")
    assert json.loads(result.stdout)["warnings"]
    assert "newer" in run(*SPLIT, "--protocol", "9").stderr


@pytest.mark.parametrize(
    ("rtt", "rate", "expected"),
    [
        ("0.3", "941 Mbits/sec", (0.3, 941)),
        ("300us", "9.41 Gbits/sec", (0.3, 9410)),
        ("rtt min/avg/max/mdev = 0.251/0.293/0.412/0.031 ms", "940mbit", (0.293, 940)),
        ("0.2/0.3/0.4", "112 MBytes/sec", (0.3, 112 * 8.388608)),
    ],
)
def test_figures_as_ping_and_iperf3_print_them(
    rtt: str, rate: str, expected: tuple[float, float]
) -> None:
    link = document(*SPLIT, "--rtt", rtt, "--bandwidth", rate)["links"][0]
    assert (link["rtt_ms"], link["mbit_s"]) == pytest.approx(expected)


def test_advice_names_what_costs_most() -> None:
    logits = run(*SPLIT, "--link", "1gbe").stdout
    assert "Logits are" in logits
    local = run(*SPLIT, "-ot", "^output.weight=CPU", "--link", "1gbe").stdout
    assert "Logits are" not in local
    wide = str(HERE / "models" / "qwen3-h128.gguf")
    quantised = run("-m", wide, "--rpc", "w", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on").stdout
    assert "rotation matrices" in quantised


def test_drafting_is_told_with_its_price() -> None:
    result = run("-m", HEAD, "--rpc", "w", "--spec-type", "draft-mtp", "--link", "wan")
    assert "A round of 3 drafts (11 round trips" in result.stdout
    assert "breaks even" in result.stdout or "cannot pay" in result.stdout


def test_a_pasted_command_line() -> None:
    line = f"llama-server -m {MODEL} --rpc h:50052 -ngl 4 --host 0.0.0.0 -fa on"
    found = document("--link", "1gbe", "--", *line.split())
    assert found["placement"][0]["layers"] == 3
    one = document("--link", "1gbe", "--", line)
    assert one["decode"] == found["decode"]


def test_min_tps_is_a_check() -> None:
    assert run(*SPLIT, "--baseline", "30", "--link", "1gbe", "--min-tps", "20").exit_code == 0
    slow = run(*SPLIT, "--baseline", "30", "--link", "wan", "--min-tps", "29")
    assert slow.exit_code == 1
    assert slow.stderr == "rpcwire: fewer than 29 tokens/s on wan\n"
    assert run(*SPLIT, "--baseline", "30", "--min-tps", "29").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-m", MODEL],
        ["-m", "no-such-file.gguf", "--rpc", "w"],
        [*SPLIT, "--link", "carrier-pigeon"],
        [*SPLIT, "--bandwidth", "1gbit"],
        [*SPLIT, "--protocol", "seven"],
        [*SPLIT, "--build", "b1"],
        [*SPLIT, "--gpu", "RPC0"],
        [*SPLIT, "--gpu", "RPC0=abacus"],
        [*SPLIT, "--membw", "RPC0=-3"],
        [*SPLIT, "--acceptance", "1.5"],
        [*SPLIT, "--baseline", "0"],
        [*SPLIT, "--spec-type", "draft-mtp"],
        [*SPLIT, "-ctv", "q8_0", "-fa", "off"],
        [*SPLIT, "-ctk", "q99"],
        [*SPLIT, "--plot", "chart.gif"],
        ["-m", MODEL, "--rpc", ","],
        [*SPLIT, "--depth", "-5"],
        [*SPLIT, "--gpu", "RPC7=rtx-3090"],
        [*SPLIT, "--min-tps", "nan"],
        [*SPLIT, "-c", "-5"],
        [*SPLIT, "-np", "5000"],
        [*SPLIT, "-b", "0"],
        [*SPLIT, "--flash-attn=maybe"],
        [*SPLIT, "-dev", "RPC0,RPC0"],
        [*SPLIT, "--spec-type", "draft-simple"],
        [*SPLIT, "--rtt", "9/1/2"],
        ["-hf", "someone/some-model", "--rpc", "w"],
    ],
)
def test_bad_usage_is_one_line_and_status_2(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_chart_is_an_svg_document(tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    assert run(*SPLIT, *GPUS, "--plot", str(path)).exit_code == 0
    root = ElementTree.fromstring(path.read_text("utf-8"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}polyline")) == 3
    words = {node.text for node in root.iter(f"{space}text")}
    assert {"1gbe", "wifi6", "round trip, ms", "1 Gbit/s"} <= words


def test_what_costs_what() -> None:
    plain = document("-m", HEAD, "--rpc", "w", "--link", "1gbe")["decode"]
    quantised = document("-m", HEAD, "--rpc", "w", "--link", "1gbe", "-ctk", "q8_0", "-ctv", "q8_0")
    roles = {row["role"]: row["bytes_up"] for row in quantised["decode"]["roles"]}
    assert roles["kv_rotation"] == 2 * (64 * 64 * 4 + 314)  # two rotations for heads of 64
    local = document("-m", HEAD, "--rpc", "w", "--link", "1gbe", "-ot", "^output=CPU")["decode"]
    assert plain["bytes_down_per_token"] - local["bytes_down_per_token"] == 4 * (1024 - 256)
    old = document("-m", HEAD, "--rpc", "w", "--link", "1gbe", "--protocol", "2.0")["decode"]
    assert old["bytes_up_per_token"] > 20 * plain["bytes_up_per_token"]  # the graph, every token

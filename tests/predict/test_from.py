"""`--from`: recorded runs on other links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpcwire.analysis import analyze

from .commandline import document, run

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
LOOPBACK = CAPTURES / "v7.0-qwen35-plain.pcap.gz"
GIGABIT = CAPTURES / "v7.0-link-1gbe.pcap.gz"
HEAD = ROOT / "tests" / "predict" / "models" / "micro-qwen35.gguf"


@pytest.mark.parametrize("capture", [LOOPBACK, GIGABIT, CAPTURES / "v7.0-qwen35-mtp.pcap.gz"])
def test_the_recorded_link_gives_its_own_figure(capture: Path) -> None:
    measured = analyze(capture).per_token
    (link,) = document("--from", str(capture), "--link", "recorded")["links"]
    assert link["decode"]["ms_per_token"] == pytest.approx(measured.ms, rel=1e-6)


def test_from_loopback_to_a_gigabit_link() -> None:
    there = json.loads(GIGABIT.with_suffix("").with_suffix(".json").read_text("utf-8"))
    reported = there["requests"][0]["predicted_per_token_ms"]
    rtt = 2 * there["link"]["one_way_ms"]
    found = document("--from", str(LOOPBACK), "--rtt", f"{rtt}ms", "--bandwidth", "941mbit")
    assert found["links"][0]["decode"]["ms_per_token"] == pytest.approx(reported, rel=0.15)


def test_another_split_keeps_computing_and_protocol() -> None:
    words = ["-m", str(HEAD), "--rpc", "a,b", "-ts", "1,1", "--link", "1gbe"]
    found = document("--from", str(LOOPBACK), *words)
    assert found["decode"]["round_trips_per_token"] == 2
    said = {row["name"]: row for row in found["assumptions"]}
    assert said["protocol"]["value"] == "7.0.0"
    assert said["speed without the network"]["source"] == "measured"
    alone = document("--from", str(LOOPBACK), "--link", "1gbe")["links"][0]["decode"]
    split = found["links"][0]["decode"]
    assert split["ms_per_token"] > alone["ms_per_token"] - 0.2


def test_bytes_are_those_of_the_generation_phases() -> None:
    found = document("--from", str(GIGABIT), "--link", "1gbe")["decode"]
    phase = analyze(GIGABIT).phases["decode"]
    assert found["bytes_up_per_token"] == pytest.approx(phase.bytes_up / 23)


def test_the_workers_of_the_recording_serve_another_split() -> None:
    found = document("--from", str(LOOPBACK), "-m", str(HEAD), "-ngl", "4", "--link", "1gbe")
    assert found["placement"][0]["endpoint"].startswith("127.0.0.1:")
    assert found["placement"][0]["layers"] < found["model"]["layers"]


def test_a_replay_begins_with_its_verdict() -> None:
    words = run("--from", str(GIGABIT), "--link", "wan").stdout
    assert words.startswith("WAN, same region is not enough: ")
    assert max(map(len, words.splitlines())) <= 80


def test_what_a_replay_cannot_use_is_refused() -> None:
    for words in (["--gpu", "RPC0=rtx-3090"], ["--depth", "9"], ["--acceptance", "0.5"]):
        assert run("--from", str(LOOPBACK), *words).exit_code == 2


def test_a_capture_without_tokens_is_refused(tmp_path: Path) -> None:
    nothing = tmp_path / "x.pcap"
    nothing.write_bytes(b"no capture")
    for arguments in (["--from", str(nothing)], ["--from", str(tmp_path / "none")]):
        assert run(*arguments).exit_code == 2

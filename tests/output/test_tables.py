"""DataFrames for notebooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bundled import analysis, capture

import rpcwire

pytest.importorskip("pandas")
MTP = capture("v7.0-qwen35-mtp")


def test_frames_sum_to_the_analysis() -> None:
    frames, a = rpcwire.read_frames(MTP), analysis("v7.0-qwen35-mtp")
    assert frames["bytes"].sum() == a.capture.stream_bytes
    by_phase = frames.groupby("phase", observed=True)["bytes"].sum()
    for phase, total in by_phase.items():
        assert total == a.phases[str(phase)].bytes_up + a.phases[str(phase)].bytes_down
    assert str(frames["pass"].dtype) == "Int64"
    assert str(frames["role"].dtype) == "category"


def test_passes_sum_to_the_frames() -> None:
    passes, frames = rpcwire.read_passes(MTP), rpcwire.read_frames(MTP)
    a = analysis("v7.0-qwen35-mtp")
    inside = frames[frames["pass"].notna()]
    assert passes["bytes_up"].sum() + passes["bytes_down"].sum() == inside["bytes"].sum()
    for phase, group in passes.groupby("phase", observed=True):
        assert len(group) == a.phases[str(phase)].passes
        assert group["rows"].sum() == a.phases[str(phase)].rows
    assert passes["time_s"].is_monotonic_increasing
    verify = passes[passes["phase"] == "verify"]
    assert (verify["rows"] > 1).mean() > 0.9
    assert not verify["head"].any()


def test_a_part() -> None:
    two = capture("v7.0-llama-server")
    assert set(rpcwire.read_passes(two, request=2)["phase"]) == {"prefill", "decode"}
    assert set(rpcwire.read_frames(two, until=0.02)["phase"]) == {"load"}


def test_names_are_loaded_when_used() -> None:
    code = (
        "import sys, rpcwire; assert 'numpy' not in sys.modules; "
        "assert set(rpcwire.__all__) <= set(dir(rpcwire)); rpcwire.analyze; "
        "assert 'pandas' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
    with pytest.raises(AttributeError):
        rpcwire.nothing  # noqa: B018


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rpcwire.UsageError, match=r"rpcwire\[pandas\]"):
        rpcwire.read_frames(MTP)

"""The wheel and the sdist: what is in them, and that they run outside the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build")

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with both; the wheel is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def _tracked(*folders: str) -> set[str]:
    done = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_nothing_is_left_out(made: Path) -> None:
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    assert _tracked("rpcwire") <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in _tracked() if not name.startswith(".")} <= held


@pytest.fixture(scope="module", params=["newest", "oldest"])
def rpcwire(
    request: pytest.FixtureRequest, made: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The program, installed from the wheel with the newest or the oldest libraries allowed."""
    if request.param == "oldest" and sys.version_info >= (3, 13):
        pytest.skip("numpy 1.26 has no wheels for this Python")
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (wheel,) = made.glob("*.whl")
    versions = ["numpy==1.26.*", "click==8.1.0"] if request.param == "oldest" else []
    subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "install", "-q", str(wheel), *versions],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "bin" / "rpcwire"


def test_the_program_runs(rpcwire: Path, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        return subprocess.run(
            [rpcwire, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    capture = str(CAPTURES / "v7.0-qwen35-mtp.pcap.gz")
    model = str(CAPTURES / "micro-llama.header.gguf")
    assert "analyze" in run("--help")
    assert "5 of 53 drafted tokens" in " ".join(run("analyze", capture).split())
    assert run("analyze", capture, "--csv", "roles").startswith("role,")
    assert json.loads(run("predict", "-m", model, "--rpc", "w:50052", "--json"))["links"]
    assert json.loads(run("diagnose", capture, "--json"))["findings"]
    assert "drafted" in run("compare", str(CAPTURES / "v7.0-qwen35-plain.pcap.gz"), capture)
    run("report", capture, "-o", "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text("utf-8")
    run("analyze", capture, "--plot", "roles.svg")
    assert run("wireshark").startswith("--")
    assert "rpcwire" in run("doctor")
    assert "_rpcwire" in run("completion", "bash")
    run("slim", capture, "slim.pcap.gz")
    assert (tmp_path / "slim.pcap.gz").stat().st_size > 0
    for command in ("frames", "record", "relay", "probe"):
        assert "Usage" in run(command, "--help")

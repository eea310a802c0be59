"""wireshark, doctor, completion, man pages and the generated documentation."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import rpcwire
from rpcwire import __version__
from rpcwire.cli import completion, doctor, wireshark
from rpcwire.cli.commands import COMMANDS
from rpcwire.cli.manpage import pages
from rpcwire.ggml.versions import COMMAND_NAMES, DIALECTS
from rpcwire.output.protocol_page import protocol_page
from rpcwire.record.doctor import examine
from rpcwire.wireshark import dissector
from rpcwire.wireshark.folders import from_listing

ROOT = Path(__file__).parent.parent.parent


def test_wireshark_prints_the_dissector() -> None:
    result = CliRunner().invoke(wireshark.command, [])
    assert result.exit_code == 0
    assert result.stdout == dissector(__version__)
    for name in COMMAND_NAMES:
        assert f'"{name}"' in result.stdout
    for key in DIALECTS:
        assert f'key = "{key}"' in result.stdout


def test_wireshark_installs(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "plugins"
    result = CliRunner().invoke(wireshark.command, ["--folder", str(folder)])
    assert result.exit_code == 0
    assert (folder / "ggml_rpc.lua").read_text() == dissector(__version__)
    assert str(folder) in result.stdout


def test_wireshark_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "rpcwire", "wireshark", "--folder", str(tmp_path / "file" / "x")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_folder_is_the_one_that_tshark_names() -> None:
    listing = "Temp:  \t/tmp\nPersonal Lua Plugins:\t/home/u/.local/lib/wireshark/plugins\nX:\t/y\n"
    assert from_listing(listing) == Path("/home/u/.local/lib/wireshark/plugins")
    assert from_listing("nothing of the kind") is None


def test_doctor_gives_a_line_for_whatever_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    missing = {c.name: c for c in examine() if not c.good}
    assert "relay" in missing["capture"].fix
    assert all("\n" not in c.fix and "\n" not in c.found for c in missing.values())


def test_doctor_as_text_and_json() -> None:
    text = CliRunner().invoke(doctor.command, [])
    assert text.exit_code == 0
    assert __version__ in text.stdout
    checks = json.loads(CliRunner().invoke(doctor.command, ["--json"]).stdout)
    assert [c["name"] for c in checks][:2] == ["rpcwire", "Python"]
    assert all(c["name"] in text.stdout for c in checks)
    assert text.stdout.count("fix: ") == sum(bool(c["fix"]) for c in checks)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_scripts_ask_rpcwire(shell: str) -> None:
    result = CliRunner().invoke(completion.command, [shell])
    assert result.exit_code == 0
    assert f"_RPCWIRE_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("rpcwire ", 1, {f"plain,{name}" for name in COMMANDS}),
        ("rpcwire frames --", 2, {"plain,--json", "plain,--csv", "plain,--port"}),
        ("rpcwire analyze cap", 2, {"file,cap"}),
        ("rpcwire report run.pcap -o", 4, {"file,"}),
        ("rpcwire wireshark --folder", 3, {"dir,"}),
        ("rpcwire analyze --csv ro", 3, {"plain,roles"}),
    ],
)
def test_completion_completes(words: str, at: int, expected: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rpcwire"],
        env={
            **os.environ,
            "_RPCWIRE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(at),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.splitlines()) >= expected


def test_every_command_has_a_man_page_with_its_options() -> None:
    made = pages()
    assert set(made) == {"rpcwire.1", *(f"rpcwire-{name}.1" for name in COMMANDS)}
    assert r"\-\-json" in made["rpcwire-analyze.1"]
    for name in COMMANDS:
        assert rf"rpcwire\-{name}" in made["rpcwire.1"]
    assert all(text.isascii() and ".SH NAME" in text for text in made.values())


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_man_pages_are_good_roff() -> None:
    for name, text in pages().items():
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        assert not done.stderr, (name, done.stderr)


def test_the_protocol_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "protocol.md").read_text("utf-8") == protocol_page()


def test_the_reference_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scapy")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    made = import_module("api_page").api_page()
    assert (ROOT / "docs" / "reference.md").read_text("utf-8") == made
    for name in rpcwire.__all__:
        assert name.startswith("_") or f"### {name}\n" in made


def test_the_protocol_page_has_every_version_and_command() -> None:
    page = protocol_page()
    for key in DIALECTS:
        assert re.search(rf"(?m)^\| {re.escape(key)} ", page)
    for name in COMMAND_NAMES:
        assert f"| {name} |" in page
    assert (
        "| GET_ALLOC_SIZE | bytes the backend needs for a tensor | 296 \\| 300 \\| 3260 | 8 |"
        in page
    )

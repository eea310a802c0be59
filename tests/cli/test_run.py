"""The command line from outside: start-up, exit statuses, one line on standard error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundled import capture

import rpcwire
from rpcwire.cli.commands import COMMANDS, overview
from rpcwire.cli.run import run

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "pandas", "gguf", "scapy", "click")
COMMAND = [sys.executable, "-m", "rpcwire"]
TWO = capture("v7.0-llama-server")


def rpc(*arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], input=data, capture_output=True, timeout=60, cwd=ROOT, check=False
    )


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("rpcwire: ")
    assert done.stdout == b""
    return lines[0]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rpcwire.cli import main; main(['--help']); "
        f"sys.exit(' '.join(m for m in {HEAVY} if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().rstrip() == overview()


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_a_command_imports_little(command: str) -> None:
    code = (
        "import sys; from rpcwire.cli.run import run; "
        f"status = run([{command!r}, '--help']); "
        f"sys.exit(status or ' '.join(m for m in {HEAVY[:4]} if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(f"Usage: rpcwire {command}".encode())


@pytest.mark.skipif(os.name != "posix", reason="wait4")
def test_help_starts_quickly() -> None:
    """At most 60 ms of the processor over an empty python; others may use the machine."""

    def best(command: list[str]) -> float:
        times = []
        for _ in range(7):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
            _, process.returncode, used = os.wait4(process.pid, 0)
            assert process.returncode == 0
            times.append(used.ru_utime + used.ru_stime)
        return min(times)

    assert best([*COMMAND, "--help"]) - best([sys.executable, "-c", "pass"]) < 0.060


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help(arguments: tuple[str, ...]) -> None:
    done = rpc(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: rpcwire COMMAND")


def test_version() -> None:
    assert rpc("--version").stdout.decode() == f"rpcwire {rpcwire.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("analize",), "did you mean 'analyze'?"),
        (("analyze",), "rpcwire analyze --help"),
        (("analyze", "--nope", "x"), "No such option"),
        (("analyze", "no-such-file.pcap"), "no-such-file.pcap"),
        (("analyze", "pyproject.toml"), "not a capture"),
        (("analyze", "."), "cannot read"),
        (("analyze", "-p", "70000", TWO), "is no port"),
        (("analyze", "-p", "9-5", TWO), "is no port"),
        (("analyze", "--since", "noon", TWO), "is no time"),
        (("analyze", "--since", "2", "--until", "1", TWO), "the window is empty"),
        (("analyze", "--request", "9", TWO), "requests 1 to 2"),
        (("analyze", "--request", "1", "-"), "read twice"),
        (("analyze", "--gguf", "pyproject.toml", TWO), "pyproject.toml"),
        (("analyze", "-", "-"), "only once"),
        (("frames", "--json", "--csv", TWO), "exclude each other"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(
    arguments: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rpcwire: ")
    assert err.count("\n") == 1
    assert says in err


def test_an_empty_standard_input() -> None:
    done = rpc("analyze", "-", data=b"")
    assert done.returncode == 2
    assert "standard input" in one_line(done)


def test_a_cut_file_is_reported_and_fine(tmp_path: Path) -> None:
    import gzip

    whole = gzip.decompress(Path(TWO).read_bytes())
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(whole[: len(whole) // 2 + 7])
    done = rpc("analyze", str(cut))
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"CAPTURE" in done.stdout


def test_what_is_unexpected_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_args: object, **_kw: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("rpcwire.analysis.analyze", broken)
    monkeypatch.delenv("RPCWIRE_DEBUG", raising=False)
    assert run(["analyze", TWO]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "ZeroDivisionError" in err
    monkeypatch.setenv("RPCWIRE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["analyze", TWO])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
@pytest.mark.parametrize("words", [["analyze", TWO], ["frames", TWO], ["--help"]])
def test_output_that_cannot_be_written(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"rpcwire: cannot write the output: No space left")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [["frames", TWO], ["--help"], ["analyze", "--help"]])
def test_a_reader_that_is_gone(words: list[str]) -> None:
    there, here = os.pipe()
    os.close(there)
    done = subprocess.run(
        [*COMMAND, *words], stdout=here, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(here)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert run(["analyze", TWO]) == 2
    assert "standard output is closed" in capsys.readouterr().err


def test_a_reader_that_has_enough() -> None:
    with subprocess.Popen(
        [*COMMAND, "frames", capture("v7.0-mtp-partial")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_a_live_capture_with_its_report() -> None:
    import gzip

    whole = gzip.decompress(Path(TWO).read_bytes())
    with subprocess.Popen(
        [*COMMAND, "analyze", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(whole)
        process.stdin.flush()
        time.sleep(1.5)  # the pipe stays open, as tcpdump's does
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    assert b"2 requests" in out.replace(b"\n", b" ")
    assert b"reading was interrupted" in out

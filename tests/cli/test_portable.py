"""What macOS and Windows users run needs no module that only Linux, or only Unix, has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIX = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
#: Runs a command line with these modules made unimportable, and functions of Unix taken away.
SCRIPT = f"""
import os, select, signal, socket, subprocess, sys
for name in {UNIX}:
    sys.modules[name] = None
for module, names in (
    (os, "fork geteuid getuid getgroups mkfifo sched_setaffinity sched_getaffinity splice"),
    (select, "poll epoll"),
    (socket, "AF_PACKET AF_UNIX SO_REUSEPORT TCP_INFO TCP_QUICKACK"),
    (signal, "SIGUSR1 SIGHUP SIGPIPE SIGALRM setitimer"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
import codecs, io
sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="cp1252")  # as Windows pipes have it
from rpcwire.cli import main
main(sys.argv[1:])
"""
CAPTURE = "captures/v7.0-llama-server.pcap.gz"
MODEL = "captures/micro-llama.header.gguf"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "analyze"),
        (["analyze", CAPTURE], "llama.cpp RPC 7.0.0"),
        (["analyze", CAPTURE, "--gguf", MODEL, "--json"], "schema_version"),
        (["frames", CAPTURE, "--csv"], "GRAPH_COMPUTE"),
        (["diagnose", CAPTURE], "generated token"),
        (["predict", "-m", MODEL, "--rpc", "worker:50052"], "Gbit"),
        (["predict", "--from", CAPTURE], "recorded link"),
        (["wireshark"], "ggml_rpc"),
        (["record", "--help"], "rpcwire record"),
        (["relay", "--help"], "rpcwire relay"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_without_what_only_unix_has(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True, cwd=ROOT, text=True, encoding="cp1252", check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout

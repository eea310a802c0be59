"""What `make bench` runs: times and memory beside tcpdump's, on the same machine in the same run.

``python tests/bench/run.py [FOLDER]`` writes a load of 214,000 packets and two long generations,
reads each with ``tcpdump -nn -r`` and ``rpcwire analyze`` in turn, and prints the best processor
time of three and the ratio. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CAPTURES = HERE.parents[1] / "captures"
ROUNDS = 3
MOST_MB = 250

#: name -> (generator and its arguments before and after the output, most times tcpdump's time)
CASES: dict[str, tuple[list[str], list[str], float]] = {
    "load": (["load.py"], [], 1.0),
    "decode": (["decode.py", str(CAPTURES / "v7.0-llama-server.pcap.gz")], ["200000"], 3.0),
    "mtp": (["decode.py", str(CAPTURES / "v7.0-qwen35-mtp.pcap.gz")], ["200000"], 3.0),
}


def measure(command: list[str]) -> tuple[float, float]:
    """Processor time in seconds and peak memory in MB of a command."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed with {process.returncode}")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return used.ru_utime + used.ru_stime, used.ru_maxrss / scale


def main() -> int:
    """Write the captures that are not there yet, and compare."""
    if shutil.which("tcpdump") is None:
        sys.exit("tcpdump is needed to compare with")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".bench")
    folder.mkdir(exist_ok=True)
    missed = False
    print(
        f"{'':8}{'file':>14}{'tcpdump':>10}{'rpcwire':>10}{'ratio':>8}{'limit':>7}{'MB':>6}"
    )
    for name, (before, after, limit) in CASES.items():
        path = folder / f"{name}.pcap"
        if not path.exists():
            generator = [sys.executable, str(HERE / before[0]), *before[1:], str(path), *after]
            subprocess.run(generator, check=True)
        tcpdump, rpcwire = ["tcpdump", "-nn", "-r", str(path)], [sys.executable, "-m", "rpcwire"]
        theirs = ours = float("inf")
        memory = 0.0
        for _ in range(ROUNDS):
            theirs = min(theirs, measure(tcpdump)[0])
            seconds, used = measure([*rpcwire, "analyze", str(path)])
            ours, memory = min(ours, seconds), max(memory, used)
        ratio = ours / theirs
        missed |= ratio > limit or memory > MOST_MB
        size = f"{path.stat().st_size / 1e6:,.0f} MB"
        print(
            f"{name:8}{size:>14}{theirs:>9.2f}s{ours:>9.2f}s{ratio:>8.2f}{limit:>7.1f}{memory:>6.0f}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

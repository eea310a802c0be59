"""Reads damaged captures of real runs until time is up; prints the seed of what failed.

    python tests/fuzz/fuzz.py --seconds 60 --seed 1

Every case has its own seed, so that `--seed N --seconds 0` repeats one.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from capture.packets import LINKS
from pipeline import traces
from pipeline.results import check_books, read
from pipeline.traces import MASK, Trace

from rpcwire.capture.reader import read_segments
from rpcwire.errors import RpcwireError

NAMES = ("v7.0-output-local", "v3.6.1-llama-bench", "v7.0-two-servers", "v7.0-qwen3moe")
#: A case may take this long, in seconds of processor time.
SLOW = 30.0


def scramble(trace: Trace, rng: random.Random) -> Trace:
    """Change fields and bytes at random."""
    out = list(trace)
    for _ in range(rng.randint(1, 40)):
        i = rng.randrange(len(out))
        p = out[i]
        body = bytearray(p.payload)
        if body:
            at = rng.randrange(len(body))
            body[at : at + rng.choice((1, 1, 8))] = rng.choice(
                (b"\xff" * 8, bytes(8), rng.randbytes(1), (1 << 63).to_bytes(8, "little"))
            )[: len(body) - at]
        size = max(len(body), p.length + (rng.choice((-1, 1, 4000)) if rng.random() < 0.1 else 0))
        out[i] = p._replace(
            payload=bytes(body),
            length=size,
            seq=(p.seq + rng.choice((0, 0, 0, 1, -1, 1 << 31, 5000))) & MASK,
            ack=(p.ack + rng.choice((0, 0, 0, 1 << 20, -1))) & MASK,
            flags=p.flags ^ rng.choice((0, 0, 0, 1, 2, 4, 16)),
        )
    return out


CHANGES: tuple[traces.Change, ...] = (
    traces.split,
    traces.join,
    traces.swap,
    traces.duplicate,
    traces.resend,
    traces.wrapped,
    traces.among_others,
    traces.behind_nat,
    lambda t, r: traces.seen_twice(t),
    lambda t, r: traces.to_v6(t),
    lambda t, r: traces.lose(t, r, r.choice((0.001, 0.01, 0.2, 0.9))),
    lambda t, r: traces.lose_range(t, *sorted((r.random(), r.random()))),
    lambda t, r: traces.snap(t, r.choice((0, 1, 8, 9, 60, 400))),
    lambda t, r: traces.only(t, r.random() < 0.5) or t,
    lambda t, r: r.sample(t, len(t)) if r.random() < 0.3 else t,
    scramble,
)


def damage(file: bytes, rng: random.Random) -> bytes:
    """Change, cut out or insert bytes of a file."""
    out = bytearray(file)
    for _ in range(rng.choice((0, 0, 1, 5, 50))):
        at = rng.randrange(len(out) or 1)
        what = rng.randrange(4)
        if what == 0:
            out[at : at + 1] = rng.randbytes(1)
        elif what == 1:
            del out[at : at + rng.randint(1, 2000)]
        elif what == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 300))
        else:
            del out[at:]
    return bytes(out)


def case(seed: int) -> None:
    """One damaged capture: a result whose books balance, or the package's own error."""
    rng = random.Random(seed)
    trace = traces.load(rng.choice(NAMES))
    start = rng.randrange(len(trace))
    trace = trace[start : start + rng.choice((50, 500, 3000))] if rng.random() < 0.7 else trace
    for change in rng.choices(CHANGES, k=rng.randint(1, 5)):
        trace = change(trace, rng)
        if not trace or len(trace) > 40_000:
            return
    link = rng.choice(LINKS)
    write: Callable[[Trace], bytes] = rng.choice(
        (traces.pcap, lambda t: traces.pcapng(t, link.number, link.wrap))
    )
    file = damage(write([p for p in trace if p.length < 65_000]), rng)
    try:
        result = read(read_segments([io.BytesIO(file)]))
    except RpcwireError:
        return
    check_books(result)


def main() -> int:
    """Run cases; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    seed = arguments.seed
    while True:
        before = time.process_time()
        try:
            case(seed)
            took = time.process_time() - before
            assert took < SLOW, f"took {took:.0f} s"
        except Exception:
            print(f"seed {seed} failed", file=sys.stderr)
            raise
        seed += 1
        if time.monotonic() >= end:
            print(f"{seed - arguments.seed} cases, none failed")
            return 0


if __name__ == "__main__":
    sys.exit(main())

"""A network link between two network namespaces: delay and rate, without the kernel's netem.

Run as `python -m tests.lab.link NAMESPACE_A NAMESPACE_B DELAY_MS RATE_MBIT` (root): two TUN
devices, 10.91.0.1 in A and 10.91.0.2 in B, joined by this process. It prints "up" and goes on until
SIGTERM.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

A, B = "10.91.0.1", "10.91.0.2"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
#: Ethernet header, checksum, preamble and gap, which a real link also carries.
_OVERHEAD = 38


def _tun(name: str, namespace: str, address: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(fd, _TUNSETIFF, request)
    for arguments in (
        ("link", "set", name, "netns", namespace),
        ("-n", namespace, "addr", "add", f"{address}/24", "dev", name),
        ("-n", namespace, "link", "set", name, "up", "txqueuelen", "2000"),
        ("-n", namespace, "link", "set", "lo", "up"),
    ):
        subprocess.run(["ip", *arguments], check=True)
    return fd


class _Way:
    """One direction: packets leave in order, `delay` after they have passed at `rate`."""

    def __init__(self, source: int, target: int, delay_s: float, bits_per_s: float) -> None:
        self.source, self._target = source, target
        self._delay, self._rate = delay_s, bits_per_s
        self._free = 0.0
        self.queue: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        """Take in what has come."""
        while True:
            try:
                packet = os.read(self.source, 65536)
            except BlockingIOError:
                return
            now = time.monotonic()
            self._free = max(now, self._free) + (len(packet) + _OVERHEAD) * 8 / self._rate
            self.queue.append((self._free + self._delay, packet))

    def let_out(self) -> None:
        """Let out what is due."""
        while self.queue and self.queue[0][0] <= time.monotonic():
            _, packet = self.queue.popleft()
            try:
                os.write(self._target, packet)
            except BlockingIOError:
                continue


def main(arguments: list[str]) -> None:
    """Join two namespaces."""
    a, b = _tun("lab-a", arguments[0], A), _tun("lab-b", arguments[1], B)
    delay, rate = float(arguments[2]) / 1e3, float(arguments[3]) * 1e6
    ways = {a: _Way(a, b, delay, rate), b: _Way(b, a, delay, rate)}
    print("up", flush=True)
    poll = select.poll()
    for fd in ways:
        poll.register(fd, select.POLLIN)
    while True:
        due = min((w.queue[0][0] for w in ways.values() if w.queue), default=None)
        # Whole milliseconds are slept through, the rest is spun through.
        wait = None if due is None else int(max(due - time.monotonic(), 0) * 1e3)
        for fd, _ in poll.poll(wait):
            ways[fd].take()
        for way in ways.values():
            way.let_out()


if __name__ == "__main__":
    main(sys.argv[1:])

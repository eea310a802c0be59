"""A capturer of last resort: scapy's own socket, a pcap file on standard output.

Run as `python -m rpcwire.record.sniff FILTER INTERFACE`, with the right to open raw sockets.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Any

from rpcwire.capture.writer import PcapWriter

_POLL_S = 0.2
_ETHERNET, _RAW = 1, 101
_FLUSH_NS = 100_000_000


def main(arguments: list[str]) -> int:
    """Capture until SIGINT.

    Args:
        arguments: filter and interface.
    """
    from scapy.all import conf  # which makes the sockets known, too
    from scapy.error import Scapy_Exception

    wanted, interface = arguments
    ended = False

    def end(_number: int, _frame: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    try:
        source: Any = conf.L2listen(iface=interface, filter=wanted, promisc=False)
    except (OSError, ValueError, Scapy_Exception) as error:
        print(f"scapy: {error}", file=sys.stderr)
        return 1
    layer = getattr(source, "LL", None)
    link = _RAW if getattr(layer, "__name__", "") in ("IP", "IPv6", "Raw") else _ETHERNET
    writer = PcapWriter(sys.stdout.buffer, link)
    print(f"sniffing on {interface}", file=sys.stderr, flush=True)
    count, flushed = 0, time.monotonic_ns()
    while not ended:
        if source.select([source], _POLL_S):
            _kind, data, stamp = source.recv_raw(1 << 18)
            if data:
                at = time.time_ns() if stamp is None else int(float(stamp) * 1e9)
                writer.packet(at, data)
                count += 1
        if time.monotonic_ns() - flushed > _FLUSH_NS:
            sys.stdout.buffer.flush()
            flushed = time.monotonic_ns()
    sys.stdout.buffer.flush()
    print(f"{count} packets captured", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The relay's writer, a process of its own so that it never holds the relay up.

Events come in on standard input; once a second, and at the end, a line of JSON goes out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from rpcwire.errors import RpcwireError
from rpcwire.record.about import About, timestamp
from rpcwire.record.capturefile import CaptureFile
from rpcwire.record.events import EventParser
from rpcwire.record.files import BlockFile
from rpcwire.record.live import Pulse
from rpcwire.record.spool import Spool
from rpcwire.record.synthetic import SyntheticCapture

_READ_BYTES = 1 << 20
PERIOD_S = 0.5


def main(arguments: list[str]) -> int:
    """Write what comes in on standard input.

    Args:
        arguments: one, the options as JSON: path, full, comments, hardware, os, interface.
    """
    for number in (signal.SIGINT, signal.SIGHUP):  # for the relay, which then ends its stream
        signal.signal(number, signal.SIG_IGN)
    options: dict[str, Any] = json.loads(arguments[0])
    path = Path(options["path"])
    spool = Spool(path.parent)
    reader = Thread(target=_pump, args=(spool,), daemon=True)
    reader.start()
    about = About(options["comments"], options["hardware"], options["os"])
    try:
        out = BlockFile(path)
        try:
            target = CaptureFile(out, full=options["full"], about=about)
            _write(spool, target, options["interface"], out)
        finally:
            out.close()
    except (OSError, RpcwireError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        _say({"error": f"cannot write {path}: {reason}"})
        while spool.get() is not None:  # the relay goes on without a record
            pass
        return 2
    return 0


def _pump(spool: Spool) -> None:
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        spool.put(data)
    spool.close()


class _Feed:
    """Gathers what the synthetic capture writes, so that the decoder gets it in large pieces."""

    def __init__(self, target: CaptureFile) -> None:
        self._target = target
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Take bytes of the capture."""
        self._parts.append(data)

    def flush(self) -> None:
        """Hand them on."""
        if self._parts:
            self._target.feed(b"".join(self._parts))
            self._parts = []


def _write(spool: Spool, target: CaptureFile, interface: str, out: BlockFile) -> None:
    feed = _Feed(target)
    capture = SyntheticCapture(feed, interface)
    parser, pulse = EventParser(), Pulse(target.core.session)
    while (data := spool.get(PERIOD_S)) is not None:
        for event in parser.feed(data):
            capture.take(event)
        feed.flush()
        if (beat := pulse.beat(PERIOD_S)) is not None:
            out.flush()
            _say({**beat, "behind": spool.waiting})
    capture.finish()
    feed.flush()
    target.finish(comments=[f"end: {timestamp()}"])


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

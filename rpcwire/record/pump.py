"""What runs beside a recorder: the reader of the capturer's output, and the user's signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from threading import Thread
from types import FrameType
from typing import Any

from rpcwire.record.capture import Capture
from rpcwire.record.spool import Spool, widen_pipe

_READ_BYTES = 1 << 20


class Signals:
    """Counts Ctrl-C and its like, and passes SIGTERM on to the command."""

    def __init__(self) -> None:
        self.count = 0
        self.child: subprocess.Popen[bytes] | None = None
        self._old: list[tuple[int, Any]] = []

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._old.append((number, signal.signal(number, self._take)))
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old:
            signal.signal(number, handler)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if number != signal.SIGINT and self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)  # a terminal sends SIGINT to both


class Pump:
    """Reads the capturer's output as soon as it comes."""

    def __init__(self, capture: Capture, spool: Spool) -> None:
        self._capture = capture
        self.spool = spool
        self.last_s = time.monotonic()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        fd = self._capture.stream.fileno()
        widen_pipe(fd)
        try:
            while data := os.read(fd, _READ_BYTES):
                self.last_s = time.monotonic()
                self.spool.put(data)
        except OSError:
            pass
        finally:
            self.spool.close()

    def end(self) -> None:
        """The capturer has ended: let go of what is left."""
        self.spool.abandon()
        self._thread.join()
        self._capture.close()

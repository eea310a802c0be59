"""A recording from before the first packet to after the last one.

capturer → reader thread → spool → decoder and writer (this thread) → file. What fails on the way
ends the record, never the command that is being recorded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rpcwire.capture.health import WARNING
from rpcwire.errors import CaptureError, RpcwireError, UsageError
from rpcwire.record.about import About, describe, timestamp
from rpcwire.record.capture import Capture, really_lost, start
from rpcwire.record.capturefile import CaptureFile, Counters
from rpcwire.record.capturers import Job
from rpcwire.record.files import BlockFile, Ring
from rpcwire.record.interfaces import counts_twice
from rpcwire.record.live import Pulse
from rpcwire.record.plan import Plan, Recorded
from rpcwire.record.pump import Pump, Signals
from rpcwire.record.spool import Spool

_TURN_S = 0.1
_BEAT_S = 0.5
_FLUSH_S = 1.0
_SWITCH_S = 0.0002
#: Longest time to wait for the capturer to fall silent when the run is over.
_MOST_SETTLE_S = 10.0


class Recorder:
    """One recording; `run` it once.

    Args:
        plan: what to record.
        say: called with one line for what the user has to know at once.
        beat: called with the figures of live.Pulse about twice a second.
        on: called when the capture is on, with the capturer's name.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        say: Callable[[str], None] = lambda line: None,
        beat: Callable[[dict[str, Any]], None] = lambda figures: None,
        on: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._plan = plan
        self._say, self._beat, self._on = say, beat, on
        self._result = Recorded()
        self._ring = Ring(plan.path, plan.ring[1]) if plan.ring else None
        self._file: BlockFile | None = None
        self._target: CaptureFile | None = None
        self._broken = False

    def run(self) -> Recorded:
        """Record.

        Raises:
            CapturerError: nothing can capture here. CaptureError: the file cannot be written.
            UsageError: there is no such command.
        """
        plan = self._plan
        if plan.command and shutil.which(plan.command[0]) is None:
            raise UsageError(f"cannot run {plan.command[0]}: no such program")
        # The reader must get its turn often, whatever the decoder does.
        sys.setswitchinterval(_SWITCH_S)
        with Signals() as signals:
            sink = self._open()
            try:
                job = Job(plan.interfaces, plan.filter, plan.buffer_mib)
                capture = start(job, lambda: signals.count > 0)
            except RpcwireError:
                self._discard()
                if signals.count:
                    raise KeyboardInterrupt from None
                raise
            about = describe(
                plan.argv,
                interfaces=plan.interfaces,
                capturer=capture.capturer.name,
                command=plan.command,
            )
            pump = Pump(capture, Spool(plan.path.absolute().parent))
            try:
                self._record(capture, pump, about, sink, signals)
            finally:
                capture.kill()
                pump.end()
        return self._result

    # -- the file --------------------------------------------------------------------------------

    def _open(self) -> BlockFile:
        try:
            self._file = self._ring.next() if self._ring else BlockFile(self._plan.path)
        except OSError as error:
            raise CaptureError(f"cannot write {self._plan.path}: {error.strerror}") from error
        return self._file

    def _discard(self) -> None:
        if self._file is not None:
            self._file.discard()

    def _rotate(self) -> BlockFile:
        assert self._ring is not None
        self._file = self._ring.next()
        return self._file

    # -- the run ---------------------------------------------------------------------------------

    def _record(
        self, capture: Capture, pump: Pump, about: About, sink: BlockFile, signals: Signals
    ) -> None:
        plan = self._plan
        self._target = CaptureFile(
            sink,
            full=plan.full,
            name=capture.capturer.name,
            about=about,
            interface=", ".join(plan.interfaces),
            rotate=self._rotate if self._ring else None,
            file_bytes=plan.ring[0] if plan.ring else 0,
        )
        self._on(capture.capturer.name)
        child = self._spawn(capture, signals)
        self._drive(capture, pump, child, signals)
        self._result.spilled = pump.spool.spilled
        self._finish(capture)

    def _spawn(self, capture: Capture, signals: Signals) -> subprocess.Popen[bytes] | None:
        command = self._plan.command
        if not command or signals.count:
            return None
        try:
            child = subprocess.Popen(command)
        except OSError as error:
            self._discard()
            raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error
        signals.child = child
        return child

    def _drive(
        self,
        capture: Capture,
        pump: Pump,
        child: subprocess.Popen[bytes] | None,
        signals: Signals,
    ) -> None:
        """Write what comes until the run is over, the capturer has drained and all is written."""
        assert self._target is not None
        spool = pump.spool
        pulse = Pulse(self._target.core.session)
        began = flushed = time.monotonic()
        over: float | None = None
        stopped, interrupts = False, 0
        while True:
            data = spool.get(_TURN_S)
            if data:
                self._write(data)
            now = time.monotonic()
            if now - flushed > _FLUSH_S:
                flushed = now
                self._guard(lambda: self._file.flush() if self._file else None)
            if (figures := pulse.beat(_BEAT_S)) is not None:
                self._beat({**figures, "behind": spool.waiting})
            if data is None and not stopped and over is None:
                self._died(capture)
            if over is None and self._is_over(child, began, signals):
                over, interrupts = now, signals.count
            if data is None and over is not None:
                break
            if data is None:  # the command goes on without a record
                time.sleep(_TURN_S)
                continue
            if over is not None and not stopped:
                settle = capture.capturer.settle_s
                quiet = now - max(over, pump.last_s) > settle or now - over > _MOST_SETTLE_S
                if quiet or signals.count > interrupts:
                    capture.stop()
                    stopped, interrupts = True, signals.count
            elif stopped and signals.count > interrupts:
                self._result.error = "interrupted before everything was written"
                capture.kill()
                break
        if child is not None:
            self._result.status = _status(child.wait())

    def _is_over(
        self, child: subprocess.Popen[bytes] | None, began: float, signals: Signals
    ) -> bool:
        duration = self._plan.duration_s
        if duration is not None and time.monotonic() - began >= duration and child is None:
            return True
        if child is not None:
            return child.poll() is not None
        return signals.count > 0 or bool(self._result.error)

    def _write(self, data: bytes) -> None:
        target = self._target
        assert target is not None
        self._guard(lambda: target.feed(data))

    def _guard(self, action: Callable[[], None]) -> None:
        """Write; when that fails say so, once, and let the rest of the run go by."""
        if self._broken:
            return
        try:
            action()
        except (OSError, RpcwireError) as error:
            self._broken = True
            reason = getattr(error, "strerror", None) or str(error)
            self._result.error = f"cannot write {self._plan.path}: {reason}; it ends there"
            self._say(self._result.error)

    def _died(self, capture: Capture) -> None:
        if not self._result.error:
            self._result.error = (
                f"{capture.capturer.name} ended early ({capture.complaint()}); "
                f"the record ends there"
            )
            self._say(self._result.error)

    def _finish(self, capture: Capture) -> None:
        target, result = self._target, self._result
        assert target is not None and self._file is not None
        capture.kill()
        counters = capture.counters()
        health = target.core.health
        if counters is None:
            counters = _sum(health.interfaces)
        real = really_lost(counters, health.packets, capture.job)
        remarks = [f"end: {timestamp()}"]
        dropped = (counters.dropped or 0) + (counters.os_dropped or 0)
        if dropped and counts_twice(capture.job.interfaces):
            remarks.append(f"dropped as counted: {dropped:,}; loopback counts each packet twice")
        if result.error:
            remarks.append(WARNING + result.error)
        self._guard(lambda: target.finish(real, remarks))
        self._guard(lambda: self._file.flush() if self._file else None)
        try:
            self._file.close()
        except OSError as error:
            result.error = result.error or f"cannot write {self._plan.path}: {error.strerror}"
        result.files = self._ring.files if self._ring else [self._plan.path]
        result.received, result.packets = real.received, health.packets
        if real.dropped is not None or real.os_dropped is not None:
            result.lost = (real.dropped or 0) + (real.os_dropped or 0)
        result.missing = sum(
            half.missing for c in target.core.session.connections for half in c.sides
        )


def _sum(interfaces: Sequence[Any]) -> Counters:
    def total(name: str) -> int | None:
        known = [v for i in interfaces if (v := getattr(i, name)) is not None]
        return sum(known) if known else None

    return Counters(total("received"), total("dropped"), total("os_dropped"))


def _status(code: int) -> int:
    """Exit status as a shell gives it."""
    return code if code >= 0 else 128 - code

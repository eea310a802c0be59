"""A capturer at work: started, watched, and stopped when its buffer is empty."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable
from threading import Thread
from typing import IO

from rpcwire.record import capturers
from rpcwire.record.advice import no_right, nothing_installed
from rpcwire.record.capturefile import Counters
from rpcwire.record.capturers import Capturer, CapturerError, Job
from rpcwire.record.interfaces import counts_twice

_START_S = 15.0
_STOP_S = 10.0
_MOST_LINES = 200


class Capture:
    """A capturer at work.

    Args:
        capturer: the program.
        job: what to capture.

    Attributes:
        stream: the capture.
    """

    def __init__(self, capturer: Capturer, job: Job) -> None:
        self.capturer = capturer
        self.job = job
        self._lines: list[str] = []
        self._on = False
        # A session of its own: Ctrl-C must reach it only through us, after the buffer is drained.
        self._process = subprocess.Popen(
            capturer.argv(job),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stream: IO[bytes] = self._process.stdout
        self._listener = Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def wait_until_on(self, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until it captures; False when it ended instead, or `give_up` said so."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end and not give_up():
            if self._on:
                return True
            if self._process.poll() is not None:
                self._listener.join(1)
                return False
            time.sleep(0.01)
        return False

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to end; what it has still to write comes first."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            Thread(target=self._kill_later, daemon=True).start()

    def _kill_later(self) -> None:
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def kill(self) -> None:
        """End it at once, and let go of it."""
        if self.running:
            self._process.kill()
        self._process.wait()
        self._listener.join()

    def close(self) -> None:
        """Let go of its output; nobody reads it any more."""
        self.stream.close()

    def complaint(self) -> str:
        """The line in which it says why it ended."""
        self._listener.join(1)
        names = f"{self.capturer.name}: "
        for line in self._lines:
            if names in line or "rror" in line:
                text = line.split(names)[-1].strip()
                if text and self.capturer.on not in text:
                    return text
        status = self._process.poll()
        if status is not None and status < 0:
            return f"killed by {signal.Signals(-status).name}"
        return self._lines[-1] if self._lines else f"ended with status {status}"

    @property
    def denied(self) -> bool:
        """Whether it ended for want of rights."""
        text = " ".join(self._lines).lower()
        words = ("permission", "not permitted", "access denied", "cannot open bpf", "privilege")
        return any(word in text for word in words)

    def counters(self) -> Counters | None:
        """What tcpdump and scapy say that they lost; None: the capture itself says it."""
        text = "\n".join(self._lines)
        received = re.search(r"(\d+) packets? received by filter", text)
        kernel = re.search(r"(\d+) packets? dropped by kernel", text)
        interface = re.search(r"(\d+) packets? dropped by interface", text)
        if received is None and kernel is None:
            return None
        return Counters(*(int(m[1]) if m else None for m in (received, interface, kernel)))

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for raw in stream:
                for line in raw.decode("utf-8", "replace").replace("\r", "\n").splitlines():
                    if line.strip() and len(self._lines) < _MOST_LINES:
                        self._lines.append(line.strip())
                    self._on |= self.capturer.on in line


def really_lost(counters: Counters, captured: int, job: Job) -> Counters:
    """Counters that mean packets: as they are, or halved where each packet is counted twice.

    Args:
        counters: as the capturer tells them; what it calls received differs between capturers.
        captured: packets in the capture.
        job: what was captured.
    """
    twice = 2 if counts_twice(job.interfaces) else 1

    def real(value: int | None) -> int | None:
        return None if value is None else -(-value // twice)

    lost = real(counters.os_dropped), real(counters.dropped)
    received = captured + sum(n or 0 for n in lost)
    return Counters(None if lost == (None, None) else received, lost[1], lost[0])


def start(job: Job, give_up: Callable[[], bool] = lambda: False) -> Capture:
    """Start the best capturer that may capture.

    Args:
        job: what to capture.
        give_up: asked now and then while it starts.

    Raises:
        CapturerError: none may, or none is installed, or there is no such interface.
    """
    reasons: list[tuple[Capturer, str, bool]] = []
    for capturer in capturers.available():
        if len(job.interfaces) > 1 and not capturer.several:
            continue
        try:
            capture = Capture(capturer, job)
        except OSError as error:
            reasons.append((capturer, error.strerror or str(error), True))
            continue
        if capture.wait_until_on(give_up):
            return capture
        capture.kill()
        capture.close()
        denied, why = capture.denied, capture.complaint()
        if give_up():
            break
        reasons.append((capturer, why, denied))
        if not denied:
            break
    raise CapturerError(_advice(job, reasons))


def _advice(job: Job, reasons: list[tuple[Capturer, str, bool]]) -> str:
    """One line that says what to do on this system."""
    if not reasons:
        return nothing_installed()
    capturer, why, denied = reasons[-1]
    if not denied:
        return f"{capturer.name} cannot capture on {', '.join(job.interfaces)}: {why}"
    return no_right(job.interfaces, {c.name for c, _, _ in reasons})

"""A relay together with its writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from rpcwire.errors import CaptureError
from rpcwire.record.about import describe
from rpcwire.record.addresses import HostPort
from rpcwire.record.pair import Traffic
from rpcwire.record.relay import Relay
from rpcwire.record.spool import widen_pipe

Beat = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Outcome:
    """What a relay did; `error`: why its record is not complete, "" when it is."""

    traffic: Traffic
    error: str = ""


def relay(
    listen: HostPort,
    target: HostPort,
    path: Path | None,
    *,
    argv: Sequence[str],
    full: bool = False,
    allow_remote: bool = False,
    ready: Callable[[HostPort], None] = lambda address: None,
    say: Callable[[str], None] = lambda line: None,
    beat: Beat = lambda figures: None,
) -> Outcome:
    """Relay until SIGINT or SIGTERM.

    Args:
        listen: where to listen.
        target: the worker.
        path: the pcapng file, or None for no record.
        argv: command line for the comments.
        full: keep tensor contents.
        allow_remote: see Relay.
        ready: called with the address when it listens.
        say: called with lines for the user.
        beat: called with the figures of live.Pulse about twice a second.

    Raises:
        UsageError: see Relay. RelayError: see Relay.
        CaptureError: the file cannot be written.
    """
    name = f"relay to {target}"
    scribe = _Scribe(path, argv, name, full=full, beat=beat, say=say) if path else None
    try:
        loop = Relay(
            listen,
            target,
            allow_remote=allow_remote,
            events=scribe.input if scribe else None,
            say=say,
        )
        old = [
            (number, signal.signal(number, lambda _n, _f: loop.stop()))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ]
        try:
            ready(loop.address)
            loop.run()
        finally:
            for number, handler in old:
                signal.signal(number, handler)
    finally:
        error = scribe.end() if scribe else ""
    return Outcome(loop.traffic, error)


class _Scribe:
    """The writer's process."""

    def __init__(
        self,
        path: Path,
        argv: Sequence[str],
        interface: str,
        *,
        full: bool,
        beat: Beat,
        say: Callable[[str], None],
    ) -> None:
        try:
            with open(path, "ab"):  # so that an impossible path is known at once
                pass
        except OSError as error:
            raise CaptureError(f"cannot write {path}: {error.strerror}") from error
        about = describe(argv, interfaces=[interface])
        options = {
            "path": str(path.absolute()),
            "full": full,
            "comments": list(about.comments),
            "hardware": about.hardware,
            "os": about.os,
            "interface": interface,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rpcwire.record.scribe", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self.input = self._process.stdin.fileno()
        widen_pipe(self.input)
        self._error = ""
        self._beat, self._say = beat, say
        self._reader = Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            figures = json.loads(line)
            if "error" in figures:
                self._error = f"{figures['error']}; the record ends there"
                self._say(f"{self._error}, the relay goes on")
            else:
                self._beat(figures)

    def end(self) -> str:
        """Let it finish; gives what went wrong."""
        assert self._process.stdin is not None
        os.set_blocking(self.input, True)
        self._process.stdin.close()
        status = self._process.wait()
        self._reader.join()
        if status and not self._error:
            self._error = f"the writer ended with status {status}"
        return self._error

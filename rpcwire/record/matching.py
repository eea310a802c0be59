"""Would this llama-server accept that worker? Asked of the llama-server itself.

A client does not send its version. So it is shown a worker that answers HELLO as the real one
does: a client that accepts the version goes on with its next command.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from dataclasses import dataclass

from rpcwire.errors import UsageError
from rpcwire.ggml.versions import HELLO_ID
from rpcwire.record.about import program_version

_ANSWER_S = 20.0
_NEXT_S = 5.0
_MOST_PAYLOAD = 1 << 16
Version = tuple[int, int, int]


@dataclass(slots=True)
class Match:
    """Whether a client accepts a worker.

    Attributes:
        program: the client. build: what it says of itself.
        accepts: None when it could not be found out.
        reason: one sentence.
    """

    program: str
    build: str
    accepts: bool | None
    reason: str


def match_client(program: str, version: Version | None) -> Match:
    """Show a client a worker of this version.

    Args:
        program: path of llama-server (or another program of llama.cpp with --list-devices).
        version: of the worker, None when it knows no HELLO.

    Raises:
        UsageError: the program cannot be run.
    """
    build = program_version(program)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_ANSWER_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        try:
            client = subprocess.Popen(
                [program, "--rpc", address, "--list-devices"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LLAMA_ARG_RPC": address},
            )
        except OSError as error:
            raise UsageError(f"cannot run {program}: {error.strerror}") from error
        try:
            accepts = _ask(listener, version)
        except OSError:
            accepts = None
        finally:
            client.kill()
            client.wait()
    shown = "no HELLO" if version is None else "protocol " + ".".join(map(str, version))
    reason = {
        True: f"{program} accepts the worker ({shown})",
        False: f"{program} does not accept the worker ({shown}): use the same release on both "
        "ends, and look for an old rpc-server beside the new ggml-rpc-server",
        None: f"{program} did not connect: it cannot be told whether it accepts the worker",
    }[accepts]
    return Match(program, build, accepts, reason)


def _ask(listener: socket.socket, version: Version | None) -> bool | None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_NEXT_S)
        header = _read(connection, 9)
        if len(header) < 9:
            return None
        command, size = struct.unpack("<BQ", header)
        if command != HELLO_ID:  # a client from before HELLO
            return version is None
        if size > _MOST_PAYLOAD or version is None:
            return False
        _read(connection, size)
        if (size == 24) != (version[0] >= 4):
            return False  # each side waits for, or rejects, what the other one sends
        answer = bytes(version) + (bytes(25) if version[0] >= 4 else b"")
        connection.sendall(struct.pack("<Q", len(answer)) + answer)
        return len(_read(connection, 1)) == 1


def _read(connection: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size:
        try:
            data = connection.recv(size - len(out))
        except OSError:
            return out
        if not data:
            return out
        out += data
    return out

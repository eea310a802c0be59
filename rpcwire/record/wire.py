"""A ggml RPC client, as small as the probe needs, for every version of the protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType

from rpcwire.errors import RpcwireError
from rpcwire.ggml.versions import HELLO_ID, Command, Dialect, announced
from rpcwire.record.addresses import HostPort

_CAPS = bytes(24)
_MOST_ANSWER = 1 << 20


class ProbeError(RpcwireError):
    """The worker cannot be probed; the text says why and what to do."""


class BusyError(ProbeError):
    """The worker accepts the connection and says nothing: it serves somebody else."""


class ClosedError(ProbeError):
    """The worker closed the connection."""


class WorkerClient:
    """One connection to a worker.

    Args:
        endpoint: as the user wrote it. address: what it resolved to.
        timeout_s: longest wait for any answer.

    Raises:
        ProbeError: there is no connection.
    """

    def __init__(self, endpoint: HostPort, address: str, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout_s
        self.dialect: Dialect | None = None
        began = time.perf_counter()
        try:
            self._socket = socket.create_connection((address, endpoint.port), timeout_s)
        except ConnectionRefusedError as error:
            raise ProbeError(
                f"{endpoint} refuses the connection: start ggml-rpc-server there, with -H and -p "
                "for this address and port"
            ) from error
        except TimeoutError as error:
            raise ProbeError(
                f"{endpoint} does not answer within {timeout_s:g} s: is the host up, and the port "
                "open in its firewall?"
            ) from error
        except OSError as error:
            raise ProbeError(f"{endpoint} cannot be reached: {error.strerror or error}") from error
        self.connect_s = time.perf_counter() - began
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # However this ends with a request under way: a reset, not an orderly close. A worker that
        # comes to read the request later would answer it, and die of SIGPIPE at the second send.
        self._linger(True)

    def __enter__(self) -> WorkerClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._linger(False)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _linger(self, abort: bool) -> None:
        option = struct.pack("ii", int(abort), 0)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)

    @property
    def socket(self) -> socket.socket:
        """The connection."""
        return self._socket

    def exchange(self, command: int, payload: bytes) -> bytes:
        """Send a request and wait for its answer.

        Raises:
            BusyError: there was none in time. ClosedError: the worker closed the connection.
            ProbeError: the answer makes no sense.
        """
        self.send(command, payload)
        return self.receive()

    def send(self, command: int, payload: bytes) -> None:
        """Send a request.

        Raises:
            BusyError: the worker does not take it. ClosedError: the worker closed the connection.
        """
        try:
            self._socket.sendall(struct.pack("<BQ", command, len(payload)) + payload)
        except TimeoutError as error:
            raise self._busy() from error
        except OSError as error:
            raise ClosedError(f"{self._endpoint} closed the connection") from error

    def receive(self) -> bytes:
        """Wait for an answer. Raises as `exchange` does."""
        (size,) = struct.unpack("<Q", self._read(8))
        if size > _MOST_ANSWER:
            raise ProbeError(f"{self._endpoint} does not speak ggml RPC")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        out = bytearray()
        end = time.monotonic() + self._timeout
        try:
            while len(out) < size:
                self._socket.settimeout(max(end - time.monotonic(), 0.001))
                data = self._socket.recv(size - len(out))
                if not data:
                    raise ClosedError(f"{self._endpoint} closed the connection")
                out += data
        except TimeoutError as error:
            raise self._busy() from error
        except OSError as error:
            raise ClosedError(f"{self._endpoint} closed the connection") from error
        finally:
            self._socket.settimeout(self._timeout)
        return bytes(out)

    def _busy(self) -> BusyError:
        return BusyError(
            f"{self._endpoint} accepts connections but did not answer within {self._timeout:g} s: "
            "it serves another client (one at a time; probe again when that is done), or is no "
            "ggml RPC worker"
        )

    # -- by name, in the worker's dialect --------------------------------------------------------

    def hello(self, *, caps: bool) -> tuple[int, int, int]:
        """Greet; gives the worker's version and settles the dialect.

        Args:
            caps: as versions from 4.0 on do, with 24 bytes of capabilities (all zero: TCP only).

        Raises:
            As `exchange`; ProbeError when the answer is none of a ggml RPC worker.
        """
        answer = self.exchange(HELLO_ID, _CAPS if caps else b"")
        if len(answer) not in (3, 28):
            raise ProbeError(f"{self._endpoint} does not speak ggml RPC")
        version = answer[0], answer[1], answer[2]
        self.dialect = announced(version)[0]
        return version

    def knows(self, name: str) -> bool:
        """Whether the worker's version has a command."""
        return self._find(name) is not None

    def call(self, name: str, **values: int | bytes) -> dict[str, int]:
        """A command by name; gives the fields of its answer, nothing where there is none.

        Raises:
            As `exchange`.
        """
        found = self._find(name)
        assert found is not None
        number, command = found
        self.send(number, self._encode(command, values))
        return {} if command.response is None else self._decode(command, self.receive())

    def _find(self, name: str) -> tuple[int, Command] | None:
        assert self.dialect is not None
        for number, command in self.dialect.commands.items():
            if command.name == name:
                return number, command
        return None

    def _encode(self, command: Command, values: Mapping[str, int | bytes]) -> bytes:
        parts = []
        for field in command.request:
            value = values.get(field.name, 0)
            if isinstance(value, bytes):
                parts.append(value)
            else:
                size = field.size(self.dialect.layout) if self.dialect else None
                parts.append(value.to_bytes(size or 1, "little"))
        return b"".join(parts)

    def _decode(self, command: Command, answer: bytes) -> dict[str, int]:
        out: dict[str, int] = {}
        at = 0
        for field in command.response or ():
            size = field.size(self.dialect.layout) if self.dialect else None
            if size is None or at + size > len(answer):
                break
            out[field.name] = int.from_bytes(answer[at : at + size], "little")
            at += size
        return out


def tensor_record(dialect: Dialect, buffer: int, data: int, size: int) -> bytes:
    """The record of a row of `size` bytes (type I8) at `data` in a buffer."""
    import numpy as np

    row = np.zeros(1, dialect.layout.dtype)
    row["id"], row["type"], row["buffer"], row["data"] = 1, 24, buffer, data
    row["ne"][0] = (size, 1, 1, 1)
    row["nb"][0] = (1, size, size, size)
    row["name"] = b"rpcwire-probe"
    return row.tobytes()

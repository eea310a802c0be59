"""Connections to the worker that are under way; nobody else waits for them."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from rpcwire.record.addresses import Destination, HostPort, destinations
from rpcwire.record.events import Kind
from rpcwire.record.sockets import break_off, dial, outcome
from rpcwire.record.teller import Teller

_CONNECT_S = 10.0
_CLIENT, _WORKER = 0, 1

#: (number of the connection, client, worker).
Connected = Callable[[int, socket.socket, socket.socket], None]


@dataclass(slots=True)
class _Call:
    """A client that waits for a connection to the worker.

    Attributes:
        number: of the attempt. worker: the attempt.
        left: addresses to try next. end_s: monotonic time at which the attempt is given up.
    """

    number: int
    client: socket.socket
    peer: tuple[object, ...]
    worker: socket.socket
    left: list[Destination]
    end_s: float


class Dialer:
    """Connects to the first address of the worker that answers.

    Args:
        target: the worker.
        poll: where attempts are registered; call `answered` with descriptors that are ready.
        teller: hears of attempts.
        connected: called with both sockets.
        refused: called with a sentence when a client had to be turned away.

    Raises:
        UsageError: there is no such host.
    """

    def __init__(
        self,
        target: HostPort,
        poll: select.poll,
        teller: Teller,
        connected: Connected,
        refused: Callable[[str], None],
    ) -> None:
        self._target = target
        self._addresses = destinations(target)
        self._poll = poll
        self._teller = teller
        self._connected, self._refused = connected, refused
        self._calls: dict[int, _Call] = {}
        self._attempts = 0

    def connect(self, client: socket.socket, peer: tuple[object, ...]) -> None:
        """Begin to connect for a client."""
        self._next(client, peer, list(self._addresses), None)

    def answered(self, fd: int) -> None:
        """It is known how an attempt went."""
        call = self._calls.pop(fd, None)
        if call is None:
            return  # given up in the meantime
        self._poll.unregister(fd)
        error = outcome(call.worker)
        if error is not None:
            self._failed(call, error)
        else:
            self._teller.tell(Kind.READY, _WORKER, call.number, time.time_ns())
            self._connected(call.number, call.client, call.worker)

    def give_up(self) -> None:
        """End attempts that have taken too long."""
        now = time.monotonic()
        for fd, call in list(self._calls.items()):
            if now >= call.end_s:
                del self._calls[fd]
                self._poll.unregister(fd)
                self._failed(call, TimeoutError())

    def close(self) -> None:
        """End all attempts."""
        for call in self._calls.values():
            call.worker.close()
            break_off(call.client)
        self._calls.clear()

    def _next(
        self,
        client: socket.socket,
        peer: tuple[object, ...],
        left: list[Destination],
        error: OSError | None,
    ) -> None:
        while left:
            address = left.pop(0)
            self._attempts += 1
            number = self._attempts
            ends = "\n".join(f"{end[0]}\t{end[1]}" for end in (peer, address.socket))
            self._teller.tell(Kind.OPEN, _CLIENT, number, time.time_ns(), ends.encode())
            try:
                worker = dial(address)
            except OSError as failed:
                error = failed
                self._teller.tell(Kind.RESET, _WORKER, number, time.time_ns())
                continue
            end_s = time.monotonic() + _CONNECT_S
            self._calls[worker.fileno()] = _Call(number, client, peer, worker, left, end_s)
            self._poll.register(worker.fileno(), select.POLLOUT)
            return
        break_off(client)
        self._refused(f"{self._target} {_refusal(error)} (the client was turned away)")

    def _failed(self, call: _Call, error: OSError) -> None:
        call.worker.close()
        self._teller.tell(Kind.RESET, _WORKER, call.number, time.time_ns())
        self._next(call.client, call.peer, call.left, error)


def _refusal(error: OSError | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection: is ggml-rpc-server running there, on this port?"
    if isinstance(error, TimeoutError):
        return f"did not answer within {_CONNECT_S:.0f} s"
    return f"cannot be reached: {error.strerror if error else 'it has no address'}"

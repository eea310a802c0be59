"""A TCP relay: passes every byte on at once, and tells a writer what it saw.

One thread, one loop. Bytes read on one side are sent on the other before anything else is done;
what the other side does not take yet is kept, and nothing more is read until it did. The end of a
direction is passed on as an end, a reset as a reset.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rpcwire.errors import RpcwireError, UsageError
from rpcwire.record.addresses import HostPort, is_loopback, resolve
from rpcwire.record.events import Kind, encode_header

_READ_BYTES = 192 << 10
_BACKLOG = 128
_CONNECT_S = 10.0
#: Bytes that wait for the writer at most; beyond it the relay waits, for it must lose nothing.
_MOST_WAITING = 512 << 20
_RTT_PERIOD_NS = 50_000_000
#: Where Linux has tcpi_min_rtt (us) in struct tcp_info.
_MIN_RTT_AT = 148
_IN = select.POLLIN | select.POLLHUP | select.POLLERR
_LINGER_OFF = struct.pack("ii", 1, 0)

CLIENT, WORKER = 0, 1


class RelayError(RpcwireError):
    """The relay cannot start."""


@dataclass(slots=True)
class Traffic:
    """What went through: bytes of either side, connections, and those that failed."""

    up: int = 0
    down: int = 0
    connections: int = 0
    failed: int = 0


class _Pair:
    """Both ends of one relayed connection.

    Attributes:
        sockets: client, worker. waiting: per side, bytes that it has not taken yet.
        ended: per side, whether it has ended its direction.
        passed: per side, whether the end of its direction was passed on.
    """

    __slots__ = ("ended", "number", "passed", "rtt_ns", "sockets", "waiting")

    def __init__(self, number: int, client: socket.socket, worker: socket.socket) -> None:
        self.number = number
        self.sockets = (client, worker)
        self.waiting: list[memoryview | None] = [None, None]
        self.ended = [False, False]
        self.passed = [False, False]
        self.rtt_ns = 0


class Relay:
    """Listens at one address and passes connections on to another.

    Args:
        listen: where to listen; port 0 takes a free one.
        target: the worker.
        allow_remote: listen although others than this machine can connect.
        events: file descriptor that events are written to, or None.
        say: called with one line for what the user has to know.
        tick: called about twice a second.

    Attributes:
        address: where it listens. traffic: what went through.

    Raises:
        UsageError: the listening address is routable and that was not allowed.
        RelayError: it cannot listen there.
    """

    def __init__(
        self,
        listen: HostPort,
        target: HostPort,
        *,
        allow_remote: bool = False,
        events: int | None = None,
        say: Callable[[str], None] = lambda line: None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        addresses = resolve(listen)
        if not allow_remote and not is_loopback(addresses):
            raise UsageError(
                f"{listen} can be reached from other machines, and ggml RPC has no "
                "authentication; listen on 127.0.0.1, or add --allow-remote"
            )
        self._target = target
        self._say, self._tick = say, tick
        self._events = events
        self._backlog: deque[memoryview] = deque()
        self._waiting = 0
        self._pairs: dict[int, tuple[_Pair, int]] = {}
        self._poll = select.poll()
        self._buffer = bytearray(_READ_BYTES)
        self._room = memoryview(self._buffer)
        self._stop = False
        self._waker = os.pipe()
        self.traffic = Traffic()
        self._listener = _listen(addresses[0], listen)
        name = self._listener.getsockname()
        self.address = HostPort(name[0], name[1])
        if events is not None:
            os.set_blocking(events, False)

    def stop(self) -> None:
        """End `run`; may be called from a signal handler or another thread."""
        self._stop = True
        with contextlib.suppress(OSError):
            os.write(self._waker[1], b"!")

    def run(self) -> None:
        """Relay until `stop` is called."""
        listener, waker = self._listener.fileno(), self._waker[0]
        self._poll.register(listener, select.POLLIN)
        self._poll.register(waker, select.POLLIN)
        beat = time.monotonic() + 0.5
        try:
            while not self._stop:
                for fd, what in self._poll.poll(500):
                    found = self._pairs.get(fd)
                    if found is not None:
                        self._serve(*found, what)
                    elif fd == listener:
                        self._accept()
                    elif fd == self._events:
                        self._drain()
                if (now := time.monotonic()) >= beat:
                    beat = now + 0.5
                    self._tick()
        finally:
            self._close()

    # -- connections -----------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            client, peer = self._listener.accept()
        except OSError:
            return
        self.traffic.connections += 1
        number = self.traffic.connections
        began = time.time_ns()
        try:
            worker = socket.create_connection(
                (self._target.host, self._target.port), timeout=_CONNECT_S
            )
        except OSError as error:
            self.traffic.failed += 1
            self._say(f"{self._target} {_refusal(error)}; the client was turned away")
            there = (resolve_or(self._target), self._target.port)
            self._tell(Kind.OPEN, CLIENT, number, began, _ends(peer, there))
            self._tell(Kind.RESET, WORKER, number, time.time_ns())
            _break_off(client)
            return
        self._tell(Kind.OPEN, CLIENT, number, began, _ends(peer, worker.getpeername()))
        self._tell(Kind.READY, WORKER, number, time.time_ns())
        pair = _Pair(number, client, worker)
        for side, sock in enumerate(pair.sockets):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[sock.fileno()] = pair, side
            self._poll.register(sock.fileno(), select.POLLIN)

    def _serve(self, pair: _Pair, side: int, what: int) -> None:
        if what & select.POLLOUT and not self._send_on(pair, side):
            return
        if what & _IN and not pair.ended[side] and pair.waiting[1 - side] is None:
            self._read(pair, side)

    def _read(self, pair: _Pair, side: int) -> None:
        try:
            got = pair.sockets[side].recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            self._lost(pair, side)
            return
        now = time.time_ns()
        if not got:
            pair.ended[side] = True
            self._pass_end(pair, side)
            self._tell(Kind.FIN, side, pair.number, now)
            if all(pair.passed):
                self._forget(pair)
            elif pair.sockets[side].fileno() in self._pairs:
                self._watch(pair, side)
            return
        data = self._room[:got]
        try:
            sent = pair.sockets[1 - side].send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = -1
        if side == CLIENT:
            self.traffic.up += got
        else:
            self.traffic.down += got
        self._tell(Kind.DATA, side, pair.number, now, data)
        if sent < 0:
            self._lost(pair, 1 - side)
        elif sent < got:
            pair.waiting[1 - side] = memoryview(bytes(data[sent:]))
            self._watch(pair, 0)
            self._watch(pair, 1)
        elif side == WORKER and now - pair.rtt_ns > _RTT_PERIOD_NS:
            pair.rtt_ns = now
            self._tell_rtt(pair, now)

    def _send_on(self, pair: _Pair, side: int) -> bool:
        """Send what waits for a side; False when the pair is gone."""
        data = pair.waiting[side]
        if data is None:
            return True
        try:
            sent = pair.sockets[side].send(data)
        except BlockingIOError:
            return True
        except OSError:
            self._lost(pair, side)
            return False
        pair.waiting[side] = data[sent:] if sent < len(data) else None
        if pair.waiting[side] is None:
            if pair.ended[1 - side]:
                self._pass_end(pair, 1 - side)
                if all(pair.passed):
                    self._forget(pair)
                    return False
            self._watch(pair, 0)
            self._watch(pair, 1)
        return True

    def _pass_end(self, pair: _Pair, side: int) -> None:
        """A side has ended its direction: tell the other one when it has taken everything."""
        if pair.waiting[1 - side] is not None or pair.passed[side]:
            return
        pair.passed[side] = True
        with contextlib.suppress(OSError):
            pair.sockets[1 - side].shutdown(socket.SHUT_WR)

    def _lost(self, pair: _Pair, side: int) -> None:
        """A side broke the connection off: break the other one off too."""
        self._tell(Kind.RESET, side, pair.number, time.time_ns())
        if side == WORKER:
            self.traffic.failed += 1
            self._say(f"lost the connection to {self._target}; the client was told so")
        for sock in pair.sockets:
            self._unwatch(sock)
        _break_off(pair.sockets[1 - side])
        pair.sockets[side].close()

    def _forget(self, pair: _Pair) -> None:
        for sock in pair.sockets:
            self._unwatch(sock)
            sock.close()

    def _watch(self, pair: _Pair, side: int) -> None:
        """Ask for what a socket may do now: read unless the other is full, write if need be."""
        fd = pair.sockets[side].fileno()
        reads = not pair.ended[side] and pair.waiting[1 - side] is None
        wanted = (select.POLLIN if reads else 0) | (
            select.POLLOUT if pair.waiting[side] is not None else 0
        )
        if wanted or not pair.ended[side]:
            self._poll.register(fd, wanted)
        else:  # else its hang-up would be reported without end
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)

    def _unwatch(self, sock: socket.socket) -> None:
        fd = sock.fileno()
        self._pairs.pop(fd, None)
        with contextlib.suppress(KeyError, ValueError):
            self._poll.unregister(fd)

    def _close(self) -> None:
        for pair, side in list(self._pairs.values()):
            if side == CLIENT:
                self._forget(pair)
        self._listener.close()
        for fd in self._waker:
            os.close(fd)
        if self._events is not None:
            os.set_blocking(self._events, True)
        self._flush_blocking()

    # -- events ----------------------------------------------------------------------------------

    def _tell(
        self, kind: Kind, side: int, number: int, time_ns: int, data: bytes | memoryview = b""
    ) -> None:
        if self._events is None:
            return
        header = encode_header(kind, side, number, time_ns, len(data))
        if not self._backlog:
            try:
                written = os.writev(self._events, (header, data))
            except BlockingIOError:
                written = 0
            except OSError:
                self._deaf()
                return
            if written == len(header) + len(data):
                return
            self._poll.register(self._events, select.POLLOUT)
        else:
            written = 0
        rest = memoryview(b"".join((header, data)))[written:]
        self._backlog.append(rest)
        self._waiting += len(rest)
        if self._waiting > _MOST_WAITING:
            os.set_blocking(self._events, True)
            self._flush_blocking()
            os.set_blocking(self._events, False)

    def _tell_rtt(self, pair: _Pair, now: int) -> None:
        for side, sock in enumerate(pair.sockets):
            rtt = min_rtt_us(sock)
            if rtt is not None:
                self._tell(Kind.RTT, side, pair.number, now, rtt.to_bytes(4, "little"))

    def _drain(self) -> None:
        """Write what waits for the writer, as far as it goes."""
        events = self._events
        if events is None:
            return
        try:
            while self._backlog:
                written = os.write(events, self._backlog[0])
                self._waiting -= written
                if written < len(self._backlog[0]):
                    self._backlog[0] = self._backlog[0][written:]
                    return
                self._backlog.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._deaf()
            return
        self._poll.unregister(events)

    def _flush_blocking(self) -> None:
        while self._backlog and self._events is not None:
            data = self._backlog.popleft()
            while len(data):
                try:
                    data = data[os.write(self._events, data) :]
                except OSError:
                    self._deaf()
                    return
        self._waiting = 0

    def _deaf(self) -> None:
        """The writer is gone: go on without a record."""
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(KeyError):
                self._poll.unregister(events)
        self._backlog.clear()
        self._say("the record has ended early; the relay goes on without it")


def min_rtt_us(sock: socket.socket) -> int | None:
    """The smallest round-trip time that the kernel saw on a connection, in us; None: no telling."""
    if sys.platform != "linux":
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT_AT + 4)
    except OSError:
        return None
    if len(info) < _MIN_RTT_AT + 4:
        return None
    value: int = struct.unpack_from("I", info, _MIN_RTT_AT)[0]
    return value if 0 < value < 0xFFFFFFFF else None


def resolve_or(endpoint: HostPort) -> str:
    """First address of a host, or the unspecified one where there is none."""
    try:
        return resolve(endpoint)[0]
    except UsageError:
        return "0.0.0.0"


def _listen(address: str, asked: HostPort) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, asked.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise RelayError(
            f"cannot listen on {asked}: {error.strerror}; choose another port, or end what uses it"
        ) from error
    return listener


def _ends(client: tuple[object, ...], worker: tuple[object, ...]) -> bytes:
    return f"{client[0]}\t{client[1]}\n{worker[0]}\t{worker[1]}".encode()


def _break_off(sock: socket.socket) -> None:
    """Close with a reset instead of an orderly end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
    sock.close()


def _refusal(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection: is ggml-rpc-server running there, on this port?"
    if isinstance(error, TimeoutError):
        return f"did not answer within {_CONNECT_S:.0f} s"
    return f"cannot be reached: {error.strerror or error}"

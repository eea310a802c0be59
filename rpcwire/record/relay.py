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
import time
from collections.abc import Callable

from rpcwire.errors import UsageError
from rpcwire.record.addresses import HostPort, is_loopback, resolve
from rpcwire.record.dialer import Dialer
from rpcwire.record.events import Kind
from rpcwire.record.pair import Pair, Traffic
from rpcwire.record.sockets import break_off, min_rtt_us, open_listener
from rpcwire.record.teller import Teller

_READ_BYTES = 192 << 10
_TICK_S = 0.5
_RTT_PERIOD_NS = 50_000_000
_IN = select.POLLIN | select.POLLHUP | select.POLLERR

CLIENT, WORKER = 0, 1


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
        UsageError: the listening address is routable and that was not allowed, or there is no
            such host.
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
        self._pairs: dict[int, tuple[Pair, int]] = {}
        self._poll = select.poll()
        self._teller = Teller(events, self._poll, say)
        self._tell = self._teller.tell
        self._dialer = Dialer(target, self._poll, self._teller, self._join, self._refuse)
        self._buffer = bytearray(_READ_BYTES)
        self._room = memoryview(self._buffer)
        self._stop = False
        self._waker = os.pipe()
        self.traffic = Traffic()
        self._listener = open_listener(addresses[0], listen)
        name = self._listener.getsockname()
        self.address = HostPort(name[0], name[1])

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
        beat = time.monotonic() + _TICK_S
        try:
            while not self._stop:
                called = False
                for fd, what in self._poll.poll(int(_TICK_S * 1e3)):
                    found = self._pairs.get(fd)
                    if found is not None:
                        self._serve(*found, what)
                    elif fd == listener:
                        called = True
                    elif fd == self._teller.fd:
                        self._teller.drain()
                    else:
                        self._dialer.answered(fd)
                if called:  # last, for a new socket may have the number of one closed just now
                    self._accept()
                if (now := time.monotonic()) >= beat:
                    beat = now + _TICK_S
                    self._dialer.give_up()
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
        self._dialer.connect(client, peer)

    def _join(self, number: int, client: socket.socket, worker: socket.socket) -> None:
        """A client and the worker are connected."""
        pair = Pair(number, client, worker)
        for side, sock in enumerate(pair.sockets):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[sock.fileno()] = pair, side
            self._poll.register(sock.fileno(), select.POLLIN)

    def _refuse(self, sentence: str) -> None:
        self.traffic.failed += 1
        self._say(sentence)

    def _serve(self, pair: Pair, side: int, what: int) -> None:
        if what & select.POLLOUT and not self._send_on(pair, side):
            return
        if what & _IN and not pair.ended[side] and pair.waiting[1 - side] is None:
            self._read(pair, side)

    def _read(self, pair: Pair, side: int) -> None:
        try:
            got = pair.sockets[side].recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            self._lost(pair, side)
            return
        now = time.time_ns()
        if not got:
            self._ended(pair, side, now)
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

    def _ended(self, pair: Pair, side: int, now: int) -> None:
        """A side has ended its direction."""
        pair.ended[side] = True
        if side == WORKER and not pair.ended[CLIENT]:
            self.traffic.failed += 1
            self._say(f"{self._target} closed a connection in use; the client was told so")
        self._pass_end(pair, side)
        self._tell(Kind.FIN, side, pair.number, now)
        if all(pair.passed):
            self._forget(pair)
        elif pair.sockets[side].fileno() in self._pairs:
            self._watch(pair, side)

    def _send_on(self, pair: Pair, side: int) -> bool:
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

    def _pass_end(self, pair: Pair, side: int) -> None:
        """A side has ended its direction: tell the other one when it has taken everything."""
        if pair.waiting[1 - side] is not None or pair.passed[side]:
            return
        pair.passed[side] = True
        with contextlib.suppress(OSError):
            pair.sockets[1 - side].shutdown(socket.SHUT_WR)

    def _lost(self, pair: Pair, side: int) -> None:
        """A side broke the connection off: break the other one off too."""
        self._tell(Kind.RESET, side, pair.number, time.time_ns())
        if side == WORKER:
            self.traffic.failed += 1
            self._say(f"lost the connection to {self._target}; the client was told so")
        for sock in pair.sockets:
            self._unwatch(sock)
        break_off(pair.sockets[1 - side])
        pair.sockets[side].close()

    def _forget(self, pair: Pair) -> None:
        for sock in pair.sockets:
            self._unwatch(sock)
            sock.close()

    def _watch(self, pair: Pair, side: int) -> None:
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
        self._dialer.close()
        self._listener.close()
        for fd in self._waker:
            os.close(fd)
        self._teller.finish()

    def _tell_rtt(self, pair: Pair, now: int) -> None:
        for side, sock in enumerate(pair.sockets):
            rtt = min_rtt_us(sock)
            if rtt is not None:
                self._tell(Kind.RTT, side, pair.number, now, rtt.to_bytes(4, "little"))

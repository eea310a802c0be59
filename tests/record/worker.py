"""A worker that answers as ggml-rpc-server does, and computes nothing; one client at a time."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType

from rpcwire.ggml.versions import DIALECTS, Dialect, Shape

FREE, TOTAL, POINTER = 3 << 30, 4 << 30, 0x5000


class Worker:
    """Serves on a free loopback port until the end of the `with` block.

    Args:
        key: row of the version table whose dialect it speaks.
        devices: how many it has.
        room: bytes it can allocate.
    """

    def __init__(self, key: str = "7.0.0", *, devices: int = 1, room: int = 1 << 30) -> None:
        self.dialect: Dialect = DIALECTS[key]
        self.devices, self.room = devices, room
        self.received = 0
        self.commands: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self.kill()
        self._thread.join(5)
        self._listener.close()

    def kill(self) -> None:
        """Break off the connections, as a killed process does."""
        for client in self._clients:
            with suppress(OSError):  # it has ended by itself
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.shutdown(socket.SHUT_RD)  # its thread wakes, and closes it

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._converse(client)
            except OSError:
                pass
            finally:
                client.close()

    def _converse(self, client: socket.socket) -> None:
        with client.makefile("rb", buffering=1 << 16) as stream:
            while len(header := stream.read(9)) == 9:
                command, size = struct.unpack("<BQ", header)
                shape = self.dialect.shapes.get(command)
                if shape is None or (shape.fixed >= 0 and shape.fixed != size):
                    return  # as the real one: it closes the connection
                head = stream.read(min(size, 400))
                left = size - len(head)
                while left:
                    data = stream.read(min(left, 1 << 20))
                    if not data:
                        return
                    left -= len(data)
                self.received += size
                self.commands.append(shape.name)
                if shape.answered:
                    answer = self._answer(shape, head)
                    client.sendall(struct.pack("<Q", len(answer)))
                    client.sendall(answer)

    def _answer(self, shape: Shape, payload: bytes) -> bytes:
        if shape.name == "HELLO":
            version = bytes(self.dialect.row.version or (0, 0, 0))
            return version.ljust(shape.response, b"\0")
        if shape.name == "DEVICE_COUNT":
            return struct.pack("<I", self.devices)
        if shape.name == "GET_DEVICE_MEMORY":
            return struct.pack("<QQ", FREE, TOTAL)
        if shape.name == "ALLOC_BUFFER":
            size = int.from_bytes(payload[-8:], "little")
            return struct.pack("<QQ", POINTER if size <= self.room else 0, size)
        if shape.name == "GET_TENSOR":
            return bytes(int.from_bytes(payload[-8:], "little"))
        return (64).to_bytes(8, "little")[: max(shape.response, 0)]

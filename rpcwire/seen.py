"""A connection as both layers know it: its TCP stream and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rpcwire.ggml.stream import RpcConnection
    from rpcwire.session import Session
    from rpcwire.tcp.connection import Connection


class Seen(NamedTuple):
    """One connection of a session."""

    tcp: Connection
    rpc: RpcConnection

    @property
    def client(self) -> str:
        """Address and port of the client (of the initiator, where it is not ggml RPC)."""
        return endpoint(self.rpc.client)

    @property
    def server(self) -> str:
        """Address and port of the worker, or of the other end."""
        return endpoint(self.rpc.server)

    @property
    def name(self) -> str:
        """Both ends."""
        return f"{self.client} > {self.server}"

    @property
    def payload(self) -> int:
        """Stream bytes of both directions."""
        return sum(half.next for half in self.tcp.sides)

    def rtt_ns(self, side: int) -> list[int]:
        """What TCP shows of the way from the capture point to the other end and back.

        Args:
            side: whose segments are timed until the peer acknowledges them.
        """
        samples = (self.tcp.handshake_ns[side], self.tcp.sides[side].rtt.minimum)
        return [ns for ns in samples if ns is not None]


def seen(session: Session) -> list[Seen]:
    """All connections of a session, in order of appearance."""
    pairs = [Seen(tcp, rpc) for tcp, rpc in session.connections.items()]
    return sorted(pairs, key=lambda pair: pair.tcp.id)


def endpoint(address: tuple[str, int]) -> str:
    """An address and port as text; IPv6 in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""Segments to streams: offsets, holes, round-trip estimates."""

from rpcwire.tcp.assembler import Assembler, Delivery
from rpcwire.tcp.connection import Connection, Endpoint
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.rtt import Rtt
from rpcwire.tcp.span import Span

__all__ = ["Assembler", "Connection", "Delivery", "Endpoint", "Half", "Limits", "Rtt", "Span"]

"""Segments to streams: offsets, holes, round-trip estimates."""

from rpcwire.tcp.assembler import Assembler
from rpcwire.tcp.connection import Connection
from rpcwire.tcp.delivery import Delivery
from rpcwire.tcp.half import Half
from rpcwire.tcp.limits import Limits
from rpcwire.tcp.packet import Endpoint
from rpcwire.tcp.rtt import Rtt
from rpcwire.tcp.span import Span

__all__ = ["Assembler", "Connection", "Delivery", "Endpoint", "Half", "Limits", "Rtt", "Span"]

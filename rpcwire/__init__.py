"""Where the bytes and round trips of llama.cpp over RPC go.

`rpcwire.analyze`, `rpcwire.read_frames` and `rpcwire.read_passes` read captures in a notebook or
a script; docs/api.md shows them at work. What is imported here is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  #: as type checkers know it; importing typing would cost start-up time

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from rpcwire.analysis import Analysis, analyze
    from rpcwire.errors import CaptureError, ModelError, RpcwireError, UsageError
    from rpcwire.tables import read_frames, read_passes

#: Public name -> module that holds it.
_HOMES = {
    "Analysis": "rpcwire.analysis",
    "analyze": "rpcwire.analysis",
    "read_frames": "rpcwire.tables",
    "read_passes": "rpcwire.tables",
    "RpcwireError": "rpcwire.errors",
    "CaptureError": "rpcwire.errors",
    "ModelError": "rpcwire.errors",
    "UsageError": "rpcwire.errors",
}

__all__ = [
    "Analysis",
    "CaptureError",
    "ModelError",
    "RpcwireError",
    "UsageError",
    "__version__",
    "analyze",
    "read_frames",
    "read_passes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rpcwire' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

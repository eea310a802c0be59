"""Devices that layers can be placed on, in llama.cpp's order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the client's scheduler.

    Attributes:
        name: as llama.cpp names it ("RPC0", "CUDA0", "CPU").
        endpoint: "host:port" of the worker that owns it, or None for a local one.
        server: number of that worker in the order of `--rpc`, or -1.
        index: number of the device behind its worker.
        buffer: name of its buffer type, as `-ot` takes it.
    """

    name: str
    endpoint: str | None = None
    server: int = -1
    index: int = 0
    buffer: str = ""

    @property
    def remote(self) -> bool:
        """Whether a worker owns it."""
        return self.endpoint is not None


CPU = Device("CPU", buffer="CPU")

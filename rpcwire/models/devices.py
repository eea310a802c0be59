"""Devices that layers can be placed on, in llama.cpp's order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rpcwire.errors import UsageError
from rpcwire.models.flags import ServerFlags

LOCAL_NAME = re.compile(r"^(CUDA|ROCm|Vulkan|Metal|SYCL|CANN|MUSA|OpenCL|BLAS|MTL|GPU)", re.I)


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


def endpoints(flags: ServerFlags) -> list[str]:
    """Workers in the order of `--rpc`, each once (lists may hold commas, the flag may repeat)."""
    found = [part.strip() for value in flags.rpc for part in value.split(",")]
    named = [part if ":" in part else f"{part}:50052" for part in found if part]
    return list(dict.fromkeys(named))


def list_devices(flags: ServerFlags, local: list[str], legacy_names: bool = False) -> list[Device]:
    """Devices in llama.cpp's order: workers first, then local ones, unless `-dev` says otherwise.

    Args:
        flags: the command line.
        local: names of local devices that are known from other flags.
        legacy_names: buffer names of builds before protocol 3.0 (`RPC[host:port]`).

    Raises:
        UsageError: `-dev` names a device that cannot exist.
    """
    workers = [
        Device(
            name=f"RPC{number}",
            endpoint=endpoint,
            server=number,
            buffer=f"RPC[{endpoint}]" if legacy_names else f"RPC0[{endpoint}]",
        )
        for number, endpoint in enumerate(endpoints(flags))
    ]
    named = [name.strip() for name in re.split(r"[,/]", flags.devices or "") if name.strip()]
    known = {device.name.upper(): device for device in workers}
    known |= {name.upper(): Device(name, buffer=name) for name in local}
    if not named:
        return workers + [Device(name, buffer=name) for name in local]
    if [name.lower() for name in named] == ["none"]:
        return []
    devices: list[Device] = []
    for name in named:
        found = known.get(name.upper()) or _by_endpoint(workers, name) or _further(workers, name)
        if found is None and LOCAL_NAME.match(name):
            found = Device(name, buffer=name)
        if found is None:
            raise UsageError(f"-dev {name}: no such device; --rpc gives {', '.join(known) or '-'}")
        if found in devices:
            raise UsageError(f"-dev names {name} twice")
        devices.append(found)
    return devices


def _further(workers: list[Device], name: str) -> Device | None:
    """A device beyond the workers' count: one more behind the last of them."""
    match = re.match(r"^RPC(\d{1,3})$", name, re.I)
    if not match or not workers:
        return None
    last = workers[-1]
    index = int(match[1]) - len(workers) + 1
    return Device(name.upper(), last.endpoint, last.server, index, f"RPC{index}[{last.endpoint}]")


def _by_endpoint(workers: list[Device], name: str) -> Device | None:
    match = re.match(r"^RPC\d*\[(.+)\]$", name)
    return next((w for w in workers if match and w.endpoint == match[1]), None)

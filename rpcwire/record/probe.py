"""A worker as seen from here: version, devices, memory, round-trip times, throughput."""

from __future__ import annotations

import ipaddress
import statistics
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from rpcwire.ggml.versions import LATEST, announced, without_hello
from rpcwire.record.addresses import HostPort, is_loopback, resolve
from rpcwire.record.matching import Match, match_client
from rpcwire.record.sockets import min_rtt_us
from rpcwire.record.wire import ClosedError, ProbeError, WorkerClient, tensor_record

SCHEMA_VERSION = 1
ROUNDS = 200
TIMEOUT_S = 5.0
#: All round trips together take no longer than this.
_ROUNDS_S = 20.0
_MOST_DEVICES = 64
_SCRATCH = 32 << 20
_PIECE = 1 << 20
_UPLOAD_S = 3.0
_MOST_UPLOAD = 1 << 30
_MIB = 1 << 20


@dataclass(slots=True)
class DeviceInfo:
    """One device behind the worker. Memory as it says; None where it does not say."""

    device: int
    free_bytes: int | None
    total_bytes: int | None
    alignment: int | None
    max_buffer_bytes: int | None


@dataclass(slots=True)
class RoundTrips:
    """Times of trivial commands in ms.

    Attributes:
        count: how many were measured.
        jitter: mean difference between one and the next.
        wire: smallest round-trip time that the kernel saw on the connection, without the
            worker's part; None where it does not tell.
    """

    count: int
    min: float
    median: float
    p95: float
    max: float
    jitter: float
    wire: float | None


@dataclass(slots=True)
class Throughput:
    """An upload to, and a download from, a scratch buffer in Mbit/s of payload."""

    up_mbit_s: float
    down_mbit_s: float
    bytes_up: int
    bytes_down: int


@dataclass(slots=True)
class Probe:
    """What a probe found out; `to_dict` is the JSON document."""

    endpoint: str
    address: str
    protocol: str
    connect_ms: float
    devices: list[DeviceInfo]
    rtt_ms: RoundTrips | None
    throughput: Throughput | None = None
    client: Match | None = None
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document, see data/schema/probe.json."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def probe(
    endpoint: HostPort,
    *,
    rounds: int = ROUNDS,
    timeout_s: float = TIMEOUT_S,
    throughput: bool = False,
    llama_server: str | None = None,
) -> Probe:
    """Probe a worker. Takes its one connection for a second or so; waits for nobody.

    Args:
        endpoint: the worker.
        rounds: round trips to measure at most.
        timeout_s: longest wait for any answer.
        throughput: also measure an upload and a download, a few seconds at most.
        llama_server: path of a client; would it accept this worker?

    Raises:
        UsageError: the host is not known. ProbeError: the worker cannot be probed.
    """
    address = resolve(endpoint)[0]
    client, version = _greet(endpoint, address, timeout_s)
    with client:
        found = Probe(
            str(endpoint),
            address,
            "none" if version is None else ".".join(map(str, version)),
            client.connect_s * 1e3,
            _devices(client),
            _round_trips(client, rounds),
            warnings=_warnings(address, version),
        )
        if throughput:
            found.throughput = _throughput(client, found)
    if llama_server is not None:
        found.client = match_client(llama_server, version)
        if found.client.accepts is False:
            found.warnings.append(found.client.reason)
    return found


def _greet(
    endpoint: HostPort, address: str, timeout_s: float
) -> tuple[WorkerClient, tuple[int, int, int] | None]:
    """Connect, and find out how the worker wants to be greeted.

    Versions from 4.0 on want capabilities with HELLO, older ones close the connection on them;
    those before 1.0 close it on any HELLO.
    """
    for caps in (True, False):
        client = WorkerClient(endpoint, address, timeout_s)
        try:
            return client, client.hello(caps=caps)
        except ClosedError:
            client.close()
        except BaseException:
            client.close()
            raise
    # Two numberings exist without HELLO; this command has another number in each.
    for dialect in reversed(without_hello()[-2:]):
        client = WorkerClient(endpoint, address, timeout_s)
        client.dialect = dialect
        try:
            client.call("GET_DEVICE_MEMORY")
            return client, None
        except ClosedError:
            client.close()
        except BaseException:
            client.close()
            raise
    raise ProbeError(
        f"{endpoint} closes the connection on every greeting: it is no ggml RPC worker"
    )


def _devices(client: WorkerClient) -> list[DeviceInfo]:
    count = 1
    if client.knows("DEVICE_COUNT"):
        count = min(client.call("DEVICE_COUNT").get("device_count", 1), _MOST_DEVICES)
    devices = []
    for number in range(count):
        memory = client.call("GET_DEVICE_MEMORY", device=number)
        devices.append(
            DeviceInfo(
                number,
                memory.get("free"),
                memory.get("total"),
                client.call("GET_ALIGNMENT", device=number).get("alignment"),
                client.call("GET_MAX_SIZE", device=number).get("max_size"),
            )
        )
    return devices


def _round_trips(client: WorkerClient, rounds: int) -> RoundTrips | None:
    times: list[float] = []
    end = time.perf_counter() + _ROUNDS_S
    for _ in range(rounds):
        began = time.perf_counter()
        client.call("GET_ALIGNMENT", device=0)
        now = time.perf_counter()
        times.append((now - began) * 1e3)
        if now > end:
            break
    if not times:
        return None
    ordered = sorted(times)
    steps = [abs(b - a) for a, b in pairwise(times)]
    wire = min_rtt_us(client.socket)
    return RoundTrips(
        len(times),
        ordered[0],
        statistics.median(ordered),
        ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))],
        ordered[-1],
        statistics.fmean(steps) if steps else 0.0,
        None if wire is None else wire / 1e3,
    )


def _throughput(client: WorkerClient, found: Probe) -> Throughput | None:
    """Fill a scratch buffer again and again, then read it; free it in any case."""
    assert client.dialect is not None
    answer = client.call("ALLOC_BUFFER", device=0, size=_SCRATCH)
    pointer = answer.get("remote_ptr", 0)
    if not pointer:
        found.warnings.append(
            f"the worker has no room for a scratch buffer of {_SCRATCH // _MIB} MiB: throughput "
            "was not measured"
        )
        return None
    try:
        base = client.call("BUFFER_GET_BASE", remote_ptr=pointer).get("base_ptr", 0)
        record = tensor_record(client.dialect, pointer, base, _SCRATCH)
        up_s, up = _upload(client, record)
        down_s, down = _download(client, record)
    finally:
        try:
            client.call("FREE_BUFFER", remote_ptr=pointer)
            client.call("GET_ALIGNMENT", device=0)  # it has been freed when this is answered
        except ProbeError:
            found.warnings.append("the connection broke off before the scratch buffer was freed")
    return Throughput(up * 8 / up_s / 1e6, down * 8 / down_s / 1e6, up, down)


def _upload(client: WorkerClient, record: bytes) -> tuple[float, int]:
    data = bytes(_PIECE)
    sent = 0
    began = time.perf_counter()
    end = began + _UPLOAD_S
    while sent < _MOST_UPLOAD and time.perf_counter() < end:
        at = sent % _SCRATCH
        client.call("SET_TENSOR", tensor=record, cache_flag=0, offset=at, data=data)
        sent += _PIECE
    client.call("GET_ALIGNMENT", device=0)  # answered when all before it was taken
    return time.perf_counter() - began, sent


def _download(client: WorkerClient, record: bytes) -> tuple[float, int]:
    got = 0
    began = time.perf_counter()
    end = began + _UPLOAD_S
    while got < _MOST_UPLOAD and time.perf_counter() < end:
        client.call("GET_TENSOR", tensor=record, offset=got % _SCRATCH, size=_PIECE)
        got += _PIECE
    return time.perf_counter() - began, got


def _warnings(address: str, version: tuple[int, int, int] | None) -> list[str]:
    lines = []
    if not is_loopback([address]):
        where = "from the internet" if ipaddress.ip_address(address).is_global else "on its network"
        lines.append(
            f"{address} can be reached {where} without authentication: whoever reaches the port "
            "can run graphs and write memory; use loopback and an SSH tunnel"
        )
    if version is None:
        lines.append("the worker is older than protocol 1.0 (April 2025): update it")
    else:
        known = announced(version)[0]
        latest = LATEST.row.version or version
        if version[0] > latest[0]:
            lines.append(
                f"protocol {'.'.join(map(str, version))} is newer than this rpcwire knows "
                f"({known.protocol}): update rpcwire"
            )
    return lines

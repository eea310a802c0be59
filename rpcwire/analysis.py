"""Where the bytes and round trips of a capture went: what `rpcwire analyze` shows, as data.

The fields are those of the JSON document (`rpcwire/data/schema/analyze.json`); `Analysis.to_dict`
is that document. Bytes are stream bytes, times are seconds unless the name says ms.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from rpcwire.reading import Progress, Sources, When

SCHEMA_VERSION = 1


@dataclass(slots=True)
class CaptureInfo:
    """The files as a whole.

    Attributes:
        files, link_types, packets: of the input.
        start_s: time of the first packet, seconds since the epoch; None without packets.
        duration_s: from the first to the last packet.
        since_s, until_s: of the window that was asked for, seconds from the first packet; None
            where it is open.
        wire_bytes: whole packets. stream_bytes: distinct payload of the RPC connections, with
            what is proved to have been sent but was not captured (missing_bytes) or was cut by
            the snap length (truncated_bytes); undecoded_bytes are in no frame.
        retransmitted_bytes: payload of RPC connections that was sent again.
        other_connections, other_bytes: TCP connections that are not ggml RPC (or were filtered
            out), and their payload.
        notes: damage, holes and doubts, one sentence each.
    """

    files: list[str]
    link_types: list[str]
    packets: int
    start_s: float | None
    duration_s: float
    since_s: float | None
    until_s: float | None
    wire_bytes: int
    stream_bytes: int
    missing_bytes: int
    truncated_bytes: int
    undecoded_bytes: int
    undecoded_bytes_up: int
    undecoded_bytes_down: int
    retransmitted_bytes: int
    other_connections: int
    other_bytes: int
    notes: list[str] = field(default_factory=list)

    @property
    def narrowed(self) -> bool:
        """Whether only a window of the capture was counted."""
        return self.since_s is not None or self.until_s is not None


@dataclass(slots=True)
class ConnectionInfo:
    """One TCP connection that speaks ggml RPC. `id` is what `frames` calls connection."""

    id: int
    client: str
    server: str
    protocol: str
    protocol_source: str
    requests: int
    bytes_up: int
    bytes_down: int


@dataclass(slots=True)
class OtherInfo:
    """One TCP connection that is not ggml RPC."""

    client: str
    server: str
    bytes: int


@dataclass(slots=True)
class WorkerInfo:
    """One worker (an rpc-server), over all its connections.

    Attributes:
        server: address and port. devices: device numbers that were used.
        bytes_up, bytes_down: all of it. round_trips, wait_ms, *_per_token: generation only;
            wait_ms is from a graph's (or blocking request's) last byte to the response's first,
            counted once where several workers are waited for.
        rtt_ms: round-trip time of the path; rtt_source: "rpc" (commands that are answered at
            once: the whole path) or "tcp" (acknowledgements: to the nearest hop).
        tcp_rtt_ms: what TCP says of the way to the worker, or to a tunnel before it.
    """

    server: str
    protocol: str
    connections: int
    devices: list[int]
    bytes_up: int
    bytes_down: int
    bytes_up_per_token: float | None
    bytes_down_per_token: float | None
    wait_ms_per_token: float | None
    rtt_ms: float | None
    rtt_source: str | None
    tcp_rtt_ms: float | None


@dataclass(slots=True)
class CommandInfo:
    """One command: requests, bytes and response times (min, median, p95, max in ms)."""

    command: str
    count: int
    bytes_up: int
    bytes_down: int
    response_ms: dict[str, float] | None


@dataclass(slots=True)
class PhaseInfo:
    """One phase; `duration_s` is the sum of its intervals."""

    bytes_up: int
    bytes_down: int
    frames: int
    round_trips: int
    passes: int
    rows: int
    duration_s: float


@dataclass(slots=True)
class RoleInfo:
    """One role; per-token figures are of generation only."""

    role: str
    bytes_up: int
    bytes_down: int
    frames: int
    bytes_per_token: float | None
    bytes_up_per_token: float | None
    bytes_down_per_token: float | None


@dataclass(slots=True)
class RequestInfo:
    """One completion; `number` is what --request takes, `start_s` counts from the first packet."""

    number: int
    start_s: float
    prompt_tokens: int
    generated_tokens: int
    passes: int
    draft_tokens: int | None
    accepted_tokens: int | None
    prefill_s: float | None
    decode_s: float | None
    inferred: bool


@dataclass(slots=True)
class PerToken:
    """Generation, divided by the tokens generated after each request's first (`tokens`).

    Times are None where they cannot be told; `rtt_ms` and `rtt_source` say which round-trip time
    the split stands on.
    """

    tokens: int
    bytes_up: float | None
    bytes_down: float | None
    round_trips: float | None
    ms: float | None
    client_ms: float | None = None
    network_ms: float | None = None
    server_ms: float | None = None
    rtt_ms: float | None = None
    rtt_source: str | None = None


@dataclass(slots=True)
class ModelInfo:
    """The model of --gguf beside the recorded run.

    Attributes:
        boundaries: changes of device between embedding and output in the recorded passes.
        floor_bytes_per_token: 2 bytes x hidden size x boundaries.
        measured_over_floor: bytes per token, up and down, as a multiple of it.
        notes: where the model and the capture disagree.
    """

    arch: str
    hidden_size: int
    layers: int
    vocab_size: int
    boundaries: int | None
    floor_bytes_per_token: int | None
    measured_over_floor: float | None
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Analysis:
    """All accounts of a capture."""

    capture: CaptureInfo
    connections: list[ConnectionInfo]
    workers: list[WorkerInfo]
    commands: list[CommandInfo]
    phases: dict[str, PhaseInfo]
    roles: list[RoleInfo]
    requests: list[RequestInfo]
    per_token: PerToken
    model: ModelInfo | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    others: list[OtherInfo] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; what is unknown or not a number is None."""
        document = plain(self)
        return {"schema_version": document.pop("schema_version"), **document}


def plain(value: Any) -> Any:
    """Dataclasses, lists and numbers as JSON has them; NaN and infinities become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def analyze(
    paths: Sources,
    *,
    ports: Container[int] | None = None,
    gguf: str | Path | None = None,
    since: When = None,
    until: When = None,
    request: int | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Account for every byte of a llama.cpp RPC run.

    Args:
        paths: a capture (pcap or pcapng, also gzip or zstd), or several that are one run; "-" is
            standard input, an open binary file is read.
        ports: only connections with one of these ports on either end; None finds them all.
        gguf: the model's GGUF file, to compare with the arithmetic.
        since: count only what began from this moment on: seconds from the first packet, a clock
            time ("14:03:05") or a date and time.
        until: count only what began up to this moment.
        request: count only what was sent while this request ran (from 1).
        progress: called with bytes read and bytes in all (0 when unknown).

    Returns:
        The accounts. A damaged file gives what could be read, and says so in `capture.notes`.

    Raises:
        CaptureError: nothing in the input is a capture, or it cannot be read.
        ModelError: the model cannot be read.
        UsageError: the window makes no sense.
    """
    from rpcwire.accounts import account

    return account(
        paths,
        ports=ports,
        gguf=gguf,
        since=since,
        until=until,
        request=request,
        progress=progress,
    )


__all__ = [
    "SCHEMA_VERSION",
    "Analysis",
    "CaptureInfo",
    "CommandInfo",
    "ConnectionInfo",
    "ModelInfo",
    "OtherInfo",
    "PerToken",
    "PhaseInfo",
    "RequestInfo",
    "RoleInfo",
    "WorkerInfo",
    "analyze",
    "plain",
]

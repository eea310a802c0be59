"""What a reader of the accounts has to know about the capture: damage, holes and doubts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rpcwire.capture.health import WARNING
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.analysis import RequestInfo
    from rpcwire.capture.health import CaptureHealth
    from rpcwire.reading import Reading
    from rpcwire.runs.timing import PathRtt
    from rpcwire.seen import Seen

#: Connections named in one note; the others are counted.
_NAMED = 2
#: How much longer RPC's answers must take than TCP's to show a tunnel.
_FARTHER, _FAR_NS = 4, 100_000
#: Part of a stream from which retransmission is worth a word.
_RESENT = 0.001
_SIDES = ("requests", "responses")


def notes(
    reading: Reading,
    *,
    rpc: list[Seen],
    others: list[Seen],
    holes: list[int],
    requests: list[RequestInfo],
    paths: dict[tuple[str, int], PathRtt],
) -> list[str]:
    """All notes, the worst of the capture first.

    Args:
        reading: done.
        rpc: connections that are ggml RPC.
        others: connections that are not.
        holes: packets of the first frames with bytes that were not captured.
        requests: what was counted.
        paths: round-trip times by worker.
    """
    return [
        *_interrupted(reading),
        *_files(reading.health),
        *reading.session.assembler.notes(),
        *_connections(rpc, reading.health.slimmed),
        *_holes(rpc, holes),
        *_empty(others),
        *_tunnels(paths),
        *_inferred(requests),
        *_narrowed(reading),
    ]


def damage(reading: Reading) -> list[str]:
    """What a reader of frames has to know: damage, bytes in no frame, or no frames at all."""
    recognised = [c for c in reading.session.connections.values() if c.recognised]
    found = [*_interrupted(reading), *_files(reading.health), *reading.session.assembler.notes()]
    lost = sum(c.undecoded_bytes for c in recognised)
    if lost:
        found.append(f"{lost:,} bytes could not be decoded: they are in no frame")
    if not recognised and reading.health.packets:
        found.append("no ggml RPC was found: 'rpcwire analyze' says what the capture holds")
    return found


def _interrupted(reading: Reading) -> Iterator[str]:
    if reading.interrupted:
        yield "reading was interrupted: the accounts are of what had come until then"


def _files(health: CaptureHealth) -> Iterator[str]:
    yield from health.notes
    for comment in health.comments:
        if comment.startswith(WARNING):
            yield f"the recorder wrote: {comment.removeprefix(WARNING)}"
    counts = (
        (
            health.truncated_packets,
            "packets are without tensor contents, which rpcwire left out on purpose (slim)"
            if health.slimmed
            else "packets were cut by the snap length: capture whole packets",
        ),
        (health.fragments, "IP fragments were not reassembled: what they carry is missing"),
        (health.cut_headers, "packets were cut so short that no TCP header could be read"),
        (health.malformed, "packets have headers that contradict themselves; they were left out"),
        (health.skipped_blocks, "pcapng blocks of unknown types were skipped"),
    )
    for count, sentence in counts:
        if count:
            yield f"{count:,} {sentence}"
    for interface in health.interfaces:
        dropped = (interface.dropped or 0) + (interface.os_dropped or 0)
        if dropped:
            name = interface.name or "the interface"
            yield f"{name}: the capturing machine dropped {dropped:,} packets (try a larger -B)"


def _connections(rpc: list[Seen], slimmed: bool) -> Iterator[str]:
    """What concerns connections, once for all that have it in common."""
    grouped: dict[str, list[Seen]] = {}
    for connection in rpc:
        for sentence in _about(connection, slimmed):
            grouped.setdefault(sentence, []).append(connection)
    for sentence, group in grouped.items():
        names = ", ".join(c.name for c in group[:_NAMED])
        more = len(group) - _NAMED
        yield f"{names}{f' and {more:,} more' if more > 0 else ''}: {sentence}"


def _about(connection: Seen, slimmed: bool) -> Iterator[str]:
    tcp, rpc = connection
    yield from rpc.notes
    up = tcp.sides[max(0, rpc.client_side)]
    down = tcp.sides[1 - max(0, rpc.client_side)]
    if not rpc.start_captured:
        yield (
            "the capture begins in the middle of the connection: graphs sent before it are read "
            "by their shapes"
        )
    for here, there, name in ((up, down, _SIDES[0]), (down, up, _SIDES[1])):
        if there.segments and not here.packets:
            yield f"no {name} were captured: only one direction of the traffic is here"
    if rpc.requests == 1 and down.packets and not down.segments and tcp.closed_ns is not None:
        yield (
            "was closed without an answer to its first request: client and worker are likely of "
            "versions that do not understand each other (3.x against 4.x or later)"
        )
    lost = up.missing + down.missing
    if lost:
        share = f"{up.missing:,} bytes up and {down.missing:,} down"
        yield f"{share} were sent but not captured; they are counted"
    cut = up.truncated + down.truncated
    if cut and not slimmed:
        yield f"{cut:,} bytes were cut by the snap length; they are counted"
    if tcp.stray_packets:
        yield f"{tcp.stray_packets:,} packets fit nowhere in the stream and were left out"
    if tcp.duplicated_bytes:
        places = max(2, len(tcp.points))
        yield f"seen at {places} points (as with -i any or on a bridge); counted once"
    elif tcp.retransmitted_bytes > _RESENT * connection.payload:
        yield f"{tcp.retransmitted_bytes:,} bytes were sent again (TCP retransmission)"
    if tcp.reset:
        yield "was ended by a reset (RST)"


def _holes(rpc: list[Seen], holes: list[int]) -> Iterator[str]:
    if not holes:
        return
    total = sum(half.missing for c in rpc for half in c.tcp.sides)
    places = ", ".join(f"{number:,}" for number in holes)
    yield (
        f"{total:,} bytes are missing in all, the first from what begins in packet"
        f"{'s' * (len(holes) > 1)} {places} (rpcwire frames shows it)"
    )


def _empty(others: list[Seen]) -> Iterator[str]:
    idle = [c for c in others if not any(half.segments for half in c.tcp.sides)]
    if idle:
        yield (
            f"{len(idle):,} connection{'s' * (len(idle) > 1)} carried no data (refused, or left "
            f"unused), first {idle[0].name}"
        )


def _tunnels(paths: dict[tuple[str, int], PathRtt]) -> Iterator[str]:
    """Where RPC's answers take far longer than TCP's, TCP ends before the worker."""
    for server, path in paths.items():
        if path.source != "rpc" or path.tcp_ns is None or path.worker_ns is None:
            continue
        if path.worker_ns > _FARTHER * path.tcp_ns and path.worker_ns - path.tcp_ns > _FAR_NS:
            yield (
                f"{endpoint(server)}: RPC's own answers take {path.worker_ns / 1e6:.2f} ms, TCP's "
                f"acknowledgements {path.tcp_ns / 1e6:.3f} ms: a tunnel or proxy stands in between "
                "(the first was used)"
            )


def _inferred(requests: list[RequestInfo]) -> Iterator[str]:
    numbers = [str(r.number) for r in requests if r.inferred]
    if numbers:
        which = f"request {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} requests"
        yield (
            f"some token counts of {which} are the likeliest reading: the wire does not say how "
            "the last round was settled, or its inputs were not captured"
        )


def _narrowed(reading: Reading) -> Iterator[str]:
    if not reading.narrowed:
        return
    yield "narrowed: only frames that began in the window are counted"
    lost = sum(c.undecoded_bytes for c in reading.session.connections.values() if c.recognised)
    if lost:
        yield f"{lost:,} undecoded bytes are not among them: when they passed cannot be told"
    if reading.stopped:
        yield "packets behind the window were not read"

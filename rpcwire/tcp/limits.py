"""How long the TCP layer waits, and how much it holds.

Every rule counts packets of one connection and capture time, so that nothing depends on how a
capture is cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Patience and memory of an `Assembler`.

    Attributes:
        near: bytes that a sequence number or an acknowledgement may lie from where the stream
            stands and still be believed at once. Linux lets a receive window grow to 6 MiB
            (net.ipv4.tcp_rmem); beyond `near` several packets must agree.
        votes: packets that must agree on a far place before it is believed.
        acked_packets, acked_ns: a hole that the peer has acknowledged is lost once so many
            packets of the connection, or so much time, went by since: the receiver has the
            bytes, so only a reordered capture can still bring them.
        sent_packets, sent_ns: the same for a hole that nobody acknowledged: a retransmission
            may still come.
        held_bytes, held_pieces: out-of-order payload kept for one direction.
        total_bytes: out-of-order payload kept for all connections together.
        start_packets, start_segments, start_ns: packets, segments with payload and time for
            which a connection whose start was not captured is kept back to find its first byte.
        copy_ns: longest time between two sightings of one packet or handshake.
        suspect_packets, suspect_bytes, suspect_ns: how long a connection that looks like a second
            sighting of another one is kept back for proof.
        window: segments of other connections in which a second sighting is looked for.
        linger_ns: how long after its end a connection still takes late packets.
        connections: connections remembered at a time.
    """

    near: int = 16 << 20
    votes: int = 4
    acked_packets: int = 256
    acked_ns: int = SECOND
    sent_packets: int = 4096
    sent_ns: int = 10 * SECOND
    held_bytes: int = 16 << 20
    held_pieces: int = 8192
    total_bytes: int = 48 << 20
    start_packets: int = 32
    start_segments: int = 8
    start_ns: int = 100 * MILLISECOND
    copy_ns: int = SECOND
    suspect_packets: int = 64
    suspect_bytes: int = 1 << 20
    suspect_ns: int = 2 * SECOND
    window: int = 2048
    linger_ns: int = 5 * SECOND
    connections: int = 16384

    def started(self, packets: int, segments: int, elapsed_ns: int) -> bool:
        """Whether enough was seen of a connection to choose its first byte."""
        return (
            packets >= self.start_packets
            or segments >= self.start_segments
            or elapsed_ns >= self.start_ns
        )

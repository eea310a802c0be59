"""Real runs as lists of packets: read from the bundled captures, changed, and read again."""

from __future__ import annotations

import io
import ipaddress
import itertools
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from bundled import capture

from rpcwire.capture.reader import read_segments
from rpcwire.capture.segments import ACK, FIN, SYN, SegmentBatch
from rpcwire.capture.writer import PcapngWriter, PcapWriter

MASK = 0xFFFFFFFF
#: Addresses are 16 bytes, IPv4 mapped (::ffff:a.b.c.d).
MAPPED = bytes(10) + b"\xff\xff"


class Packet(NamedTuple):
    """One TCP segment; `length` is its payload on the wire, of which `payload` was captured."""

    time_ns: int
    src: bytes
    dst: bytes
    sport: int
    dport: int
    seq: int
    ack: int
    flags: int
    window: int
    payload: bytes
    length: int

    @property
    def sender(self) -> tuple[bytes, int, bytes, int]:
        """The direction it goes in."""
        return self.src, self.sport, self.dst, self.dport

    @property
    def receiver(self) -> tuple[bytes, int, bytes, int]:
        """The opposite direction."""
        return self.dst, self.dport, self.src, self.sport


Trace = list[Packet]
Change = Callable[[Trace, random.Random], Trace]


def packets(batches: Iterable[SegmentBatch]) -> Trace:
    """The segments of batches as packets."""
    out: Trace = []
    for b in batches:
        data = b.data.tobytes()
        src, dst = b.src.astype(">u8").tobytes(), b.dst.astype(">u8").tobytes()
        columns = zip(
            b.time_ns.tolist(),
            b.sport.tolist(),
            b.dport.tolist(),
            b.seq.tolist(),
            b.ack.tolist(),
            b.flags.tolist(),
            b.window.tolist(),
            b.payload.tolist(),
            b.captured.tolist(),
            b.length.tolist(),
            strict=True,
        )
        for i, (time, sport, dport, seq, ack, flags, window, at, have, size) in enumerate(columns):
            out.append(
                Packet(
                    time,
                    src[16 * i : 16 * i + 16],
                    dst[16 * i : 16 * i + 16],
                    sport,
                    dport,
                    seq,
                    ack,
                    flags,
                    window,
                    data[at : at + have],
                    size,
                )
            )
    return out


@cache
def _load(name: str) -> tuple[Packet, ...]:
    return tuple(packets(read_segments([capture(name)])))


def load(name: str) -> Trace:
    """A bundled capture."""
    return list(_load(name))


def batches(trace: Sequence[Packet], cuts: Iterable[int] = ()) -> Iterator[SegmentBatch]:
    """The packets as the capture layer hands them on, cut into batches before these packets."""
    edges = sorted({0, len(trace), *(c % (len(trace) + 1) for c in cuts)})
    for a, b in itertools.pairwise(edges):
        yield batch(trace[a:b], a + 1)


def batch(trace: Sequence[Packet], first: int = 1) -> SegmentBatch:
    """One batch; packet numbers count from `first`."""
    columns = list(zip(*trace, strict=True))
    time, src, dst, sport, dport, seq, ack, flags, window, payload, length = columns
    captured = np.array([len(p) for p in payload], np.int64)
    n = len(trace)
    return SegmentBatch(
        data=np.frombuffer(b"".join(payload), np.uint8),
        number=np.arange(first, first + n, dtype=np.int64),
        file=np.zeros(n, np.int16),
        time_ns=np.array(time, np.int64),
        src=np.frombuffer(b"".join(src), ">u8").astype(np.uint64).reshape(n, 2),
        dst=np.frombuffer(b"".join(dst), ">u8").astype(np.uint64).reshape(n, 2),
        sport=np.array(sport, np.uint16),
        dport=np.array(dport, np.uint16),
        seq=np.array(seq, np.uint32),
        ack=np.array(ack, np.uint32),
        flags=np.array(flags, np.uint8),
        window=np.array(window, np.uint16),
        payload=np.cumsum(captured) - captured,
        captured=captured,
        length=np.array(length, np.int64),
        last_number=first + n - 1,
    )


# -- files -------------------------------------------------------------------------------------


def tcp(p: Packet) -> bytes:
    """TCP header and captured payload."""
    head = struct.pack(">HHIIBBHHH", p.sport, p.dport, p.seq, p.ack, 0x50, p.flags, p.window, 0, 0)
    return head + p.payload


def network(p: Packet) -> tuple[bytes, int]:
    """The IP packet and its version. Longer ones than IP can say are IPv4 with length 0 (TSO)."""
    body = tcp(p)
    size = 20 + p.length
    if p.src.startswith(MAPPED):
        total = 20 + size
        total = total if total < 1 << 16 else 0
        head = struct.pack(">BBHHHBBH", 0x45, 0, total, 7, 0x4000, 64, 6, 0)
        return head + p.src[12:] + p.dst[12:] + body, 4
    return struct.pack(">IHBB", 6 << 28, size, 6, 64) + p.src + p.dst + body, 6


def pcapng(trace: Sequence[Packet], link: int, wrap: Callable[[bytes, int], bytes]) -> bytes:
    """A pcapng file of the packets."""
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(link)
    for p in trace:
        data = wrap(*network(p))
        writer.packet(p.time_ns, data, length=len(data) + p.length - len(p.payload))
    return out.getvalue()


def pcap(trace: Sequence[Packet]) -> bytes:
    """A pcap file of bare IP packets."""
    out = io.BytesIO()
    writer = PcapWriter(out, 101)
    for p in trace:
        data, _ = network(p)
        writer.packet(p.time_ns, data, length=len(data) + p.length - len(p.payload))
    return out.getvalue()


# -- changes that lose nothing -----------------------------------------------------------------


def split(trace: Trace, rng: random.Random, most: int = 3) -> Trace:
    """Cut payloads into up to `most` segments each."""
    out: Trace = []
    for p in trace:
        n = min(rng.randint(1, most), p.length)
        if n < 2 or len(p.payload) < p.length or p.flags & SYN:
            out.append(p)
            continue
        edges = sorted({0, p.length, *(rng.randrange(p.length) for _ in range(n - 1))})
        for a, b in itertools.pairwise(edges):
            flags = p.flags if b == p.length else p.flags & ~FIN
            out.append(
                p._replace(
                    seq=(p.seq + a) & MASK, payload=p.payload[a:b], length=b - a, flags=flags
                )
            )
    return out


def join(trace: Trace, rng: random.Random) -> Trace:
    """Merge segments that follow each other directly in one direction."""
    out: Trace = []
    for p in trace:
        q = out[-1] if out else None
        fits = (
            q is not None
            and q.sender == p.sender
            and (q.seq + q.length) & MASK == p.seq
            and not (q.flags | p.flags) & ~(ACK | 8)
            and len(q.payload) == q.length
            and q.length + p.length < 60_000
        )
        if q is not None and fits and rng.random() < 0.7:
            out[-1] = p._replace(
                seq=q.seq, payload=q.payload + p.payload, length=q.length + p.length
            )
        else:
            out.append(p)
    return out


def swap(trace: Trace, rng: random.Random, share: float = 0.05, reach: int = 4) -> Trace:
    """Let segments arrive later than others of their direction that were sent after them.

    What the peer sends in answer stays behind what it answers.
    """
    out = list(trace)
    for i in range(len(out) - 1):
        if rng.random() > share or out[i].flags & ~(ACK | 8):
            continue
        j = i
        while (
            j + 1 < len(out)
            and j - i < reach
            and out[j + 1].sender == out[i].sender
            and not out[j + 1].flags & ~(ACK | 8)
        ):
            j += 1
        times = [p.time_ns for p in out[i : j + 1]]
        moved = [*out[i + 1 : j + 1], out[i]]
        out[i : j + 1] = [p._replace(time_ns=t) for p, t in zip(moved, times, strict=True)]
    return out


def duplicate(trace: Trace, rng: random.Random, share: float = 0.05) -> Trace:
    """Repeat some packets at once."""
    return [q for p in trace for q in (p,) * (1 + (rng.random() < share))]


def resend(trace: Trace, rng: random.Random, share: float = 0.03, reach: int = 30) -> Trace:
    """Send some segments again later, together with part of what came before or after them."""
    out = list(enumerate(trace))
    whole: dict[object, bytearray] = {}
    begin: dict[object, int] = {}
    for i, p in enumerate(trace):
        key = p.sender
        if p.flags & SYN or key not in begin:
            begin[key] = (p.seq + (p.flags & SYN != 0)) & MASK
            whole[key] = bytearray()
        if p.length and (p.seq - begin[key]) & MASK == len(whole[key]):
            whole[key] += p.payload
            if rng.random() < share and i + 2 < len(trace) and not p.flags & (SYN | FIN):
                at = max(0, len(whole[key]) - p.length - rng.randrange(2000))
                to = len(whole[key]) - rng.randrange(p.length)
                later = min(len(trace) - 1, i + rng.randint(1, reach))
                again = p._replace(
                    time_ns=trace[later].time_ns,
                    seq=(begin[key] + at) & MASK,
                    payload=bytes(whole[key][at:to]),
                    length=to - at,
                )
                if to - at < 60_000 and not any(q.flags & SYN for q in trace[i : later + 1]):
                    out.append((later, again))
    return [p for _, p in sorted(out, key=lambda pair: pair[0])]


def wrapped(trace: Trace, rng: random.Random) -> Trace:
    """Shift every direction's sequence numbers so that they pass 2^32 somewhere in its stream."""
    sent: dict[object, int] = {}
    first: dict[object, int] = {}
    for p in trace:
        first.setdefault(p.sender, p.seq)
        sent[p.sender] = sent.get(p.sender, 0) + p.length
    shift: dict[object, int] = {}
    taken: set[int] = set()  # equal initial numbers would make two connections one
    for key, seq in first.items():
        before = rng.randint(1, sent[key] + 1)
        while before in taken:
            before += 1
        taken.add(before)
        shift[key] = (1 << 32) - seq - before
    return [
        p._replace(
            seq=(p.seq + shift[p.sender]) & MASK,
            ack=(p.ack + shift.get(p.receiver, 0)) & MASK if p.flags & ACK else p.ack,
        )
        for p in trace
    ]


def to_v6(trace: Trace) -> Trace:
    """The same run over IPv6."""

    def address(a: bytes) -> bytes:
        return ipaddress.ip_address("fd00::").packed[:12] + a[12:]

    return [p._replace(src=address(p.src), dst=address(p.dst)) for p in trace]


def seen_twice(trace: Trace, delay_ns: int = 1_000) -> Trace:
    """Every packet captured at two points, under the same addresses (as `-i any` does)."""
    both = [(p.time_ns, i, p) for i, p in enumerate(trace)]
    both += [(p.time_ns + delay_ns, i, p) for i, p in enumerate(trace)]
    both.sort(key=lambda entry: entry[:2])
    return [p._replace(time_ns=time) for time, _, p in both]


def behind_nat(trace: Trace, rng: random.Random, delay_ns: int = 1_000) -> Trace:
    """Every packet seen again behind a NAT that changes the client's addresses and ports."""
    outside = MAPPED + bytes((203, 0, 113, 7))
    ports: dict[tuple[bytes, int], int] = {}
    servers = {(p.dst, p.dport) for p in trace if p.flags & SYN and not p.flags & ACK}

    def translate(p: Packet) -> Packet:
        up = (p.dst, p.dport) in servers
        end = (p.src, p.sport) if up else (p.dst, p.dport)
        port = ports.setdefault(end, 20_000 + len(ports) * 3 + rng.randrange(3))
        if up:
            return p._replace(src=outside, sport=port)
        return p._replace(dst=outside, dport=port)

    both = []
    for i, p in enumerate(trace):
        up = (p.dst, p.dport) in servers
        first, second = (p, translate(p)) if up else (translate(p), p)
        both += [(p.time_ns, i, first), (p.time_ns + delay_ns, i, second)]
    both.sort(key=lambda entry: entry[:2])
    return [p._replace(time_ns=time) for time, _, p in both]


# -- other traffic -----------------------------------------------------------------------------

_OTHERS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[random.Random], bytes]]] = {
    "http": (
        lambda r: b"POST /completion HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n" + b"x" * 9,
        lambda r: b"HTTP/1.1 200 OK\r\n\r\n" + bytes(r.choices(b"abc \n{}:,", k=r.randrange(900))),
    ),
    "tls": (
        lambda r: b"\x17\x03\x03\x01\x00" + r.randbytes(256),
        lambda r: b"\x17\x03\x03\x04\x00" + r.randbytes(1024),
    ),
    "ssh": (
        lambda r: b"SSH-2.0-OpenSSH_9.9\r\n" + r.randbytes(r.randrange(200)),
        lambda r: b"SSH-2.0-OpenSSH_9.9\r\n" + r.randbytes(r.randrange(400)),
    ),
    "random": (lambda r: r.randbytes(r.randrange(1, 3000)), lambda r: r.randbytes(700)),
    "zeros": (lambda r: bytes(r.randrange(1, 3000)), lambda r: bytes(64)),
    "text": (lambda r: b"GET 1\n", lambda r: b"OK\n"),
}


def other_traffic(rng: random.Random, start_ns: int, end_ns: int, each: int = 2) -> Trace:
    """Connections that are not ggml RPC, some with their start and some without."""
    out: Trace = []
    for port, (_, (ask, answer)) in enumerate(_OTHERS.items()):
        for n in range(each):
            client = (MAPPED + bytes((198, 51, 100, 1 + n)), 30_000 + 10 * port + n)
            server = (MAPPED + bytes((198, 51, 100, 99)), 50_052 if port % 2 else 8000 + port)
            seqs = [rng.getrandbits(32), rng.getrandbits(32)]
            moments = sorted(rng.randint(start_ns, end_ns) for _ in range(rng.randint(4, 60)))
            for k, moment in enumerate(moments):
                side = k & 1
                a, b = (client, server) if side == 0 else (server, client)
                flags, payload = ACK, b""
                if k < 2 and n == 0:
                    flags = SYN | (ACK if side else 0)
                else:
                    payload = (ask, answer)[side](rng)
                out.append(
                    Packet(
                        moment,
                        a[0],
                        b[0],
                        a[1],
                        b[1],
                        seqs[side],
                        seqs[1 - side],
                        flags,
                        500,
                        payload,
                        len(payload),
                    )
                )
                seqs[side] = (seqs[side] + len(payload) + (flags & SYN != 0)) & MASK
    return out


def among_others(trace: Trace, rng: random.Random) -> Trace:
    """The run between connections of other programs."""
    others = other_traffic(rng, trace[0].time_ns, trace[-1].time_ns)
    return sorted([*trace, *others], key=lambda p: p.time_ns)


# -- changes that lose something ---------------------------------------------------------------


def lose(trace: Trace, rng: random.Random, share: float = 0.01) -> Trace:
    """Each packet is captured with a probability of 1 - share."""
    return [p for p in trace if rng.random() >= share]


def lose_range(trace: Trace, first: float, last: float) -> Trace:
    """A stretch of packets, given as shares of all, was not captured."""
    n = len(trace)
    return trace[: int(first * n)] + trace[int(last * n) :]


def snap(trace: Trace, payload: int) -> Trace:
    """Only the first bytes of each payload were captured."""
    return [p._replace(payload=p.payload[:payload]) for p in trace]


def only(trace: Trace, up: bool) -> Trace:
    """The packets of one direction (towards the port that listens)."""
    servers = {(p.dst, p.dport) for p in trace if p.flags & SYN and not p.flags & ACK}
    return [p for p in trace if ((p.dst, p.dport) in servers) == up]

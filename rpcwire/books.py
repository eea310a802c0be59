"""From a finished reading to its Analysis: sums, rates and shares, nothing decoded any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.analysis import (
    Analysis,
    CaptureInfo,
    CommandInfo,
    ConnectionInfo,
    OtherInfo,
    PerToken,
    PhaseInfo,
    RequestInfo,
    RoleInfo,
    WorkerInfo,
)
from rpcwire.ggml.frame import DOWN, UP
from rpcwire.notes import notes
from rpcwire.runs.timing import PathRtt, generated, path_rtt, token_time
from rpcwire.seen import Seen, seen
from rpcwire.window import ALWAYS

if TYPE_CHECKING:
    from rpcwire.narrow import Narrow
    from rpcwire.reading import Reading
    from rpcwire.runs.totals import Totals

#: Connections of other traffic that are named.
_NAMED_OTHERS = 10


class Books:
    """Builds an Analysis of a reading that is done.

    Args:
        reading: done.
        narrow: the totals of its window; None when all of it counts.
        holes: packets of the first frames with bytes that were not captured.
    """

    def __init__(self, reading: Reading, narrow: Narrow | None, holes: list[int]) -> None:
        self.reading = reading
        self.session = reading.session
        self.narrow = narrow
        self.holes = holes
        self.totals: Totals = reading.session.run.totals
        self.by_connection = self.totals.by_connection()
        connections = seen(self.session)
        self.rpc = [c for c in connections if c.rpc.recognised]
        self.others = [c for c in connections if not c.rpc.recognised]
        self.first_ns = reading.health.first_ns or 0
        self.requests = self._requests()
        self.generating = narrow.clipped() if narrow else self.session.run.requests
        self.tokens = generated(self.generating)
        self.paths = self._paths()

    def analysis(self) -> Analysis:
        """The document, without model and findings."""
        return Analysis(
            capture=self._capture(),
            connections=self._connections(),
            workers=self._workers(),
            commands=self._commands(),
            phases=self._phases(),
            roles=self._roles(),
            requests=self.requests,
            per_token=self._per_token(),
            others=self._others(),
        )

    def _per(self, amount: float) -> float | None:
        return amount / self.tokens if self.tokens else None

    def _edge(self, time_ns: int, open_ns: int) -> float | None:
        """An end of the window in seconds from the first packet; None where it is open."""
        return None if time_ns == open_ns else (time_ns - self.first_ns) / 1e9

    def _capture(self) -> CaptureInfo:
        health = self.reading.health
        halves = [half for c in self.rpc for half in c.tcp.sides]
        undecoded = [sum(c.rpc.undecoded[way] for c in self.rpc) for way in (UP, DOWN)]
        stream = sum(half.next for half in halves)
        missing = sum(half.missing for half in halves)
        truncated = sum(half.truncated for half in halves)
        resent = sum(c.tcp.retransmitted_bytes for c in self.rpc)
        if self.narrow is not None:
            undecoded = [0, 0]
            stream = sum(t.up + t.down for t in self.totals.by_phase().values())
            missing, truncated = self.narrow.missing, self.narrow.truncated
        span = 0 if health.last_ns is None else health.last_ns - self.first_ns
        assembler = self.session.assembler
        window = self.reading.window
        carried = [c for c in self.others if c.payload]
        return CaptureInfo(
            files=list(health.files),
            link_types=list(health.link_types),
            packets=health.packets,
            start_s=None if health.first_ns is None else health.first_ns / 1e9,
            duration_s=span / 1e9,
            since_s=self._edge(window.low, ALWAYS.low),
            until_s=self._edge(window.high, ALWAYS.high),
            wire_bytes=health.wire_bytes,
            stream_bytes=stream,
            missing_bytes=missing,
            truncated_bytes=truncated,
            undecoded_bytes=sum(undecoded),
            undecoded_bytes_up=undecoded[UP],
            undecoded_bytes_down=undecoded[DOWN],
            retransmitted_bytes=resent,
            other_connections=len(carried) + self.reading.filtered_connections,
            other_bytes=sum(c.payload for c in carried) + assembler.filtered_bytes,
            notes=notes(
                self.reading,
                rpc=self.rpc,
                others=self.others,
                holes=self.holes,
                requests=self.requests,
                paths=self.paths,
            ),
        )

    def _connections(self) -> list[ConnectionInfo]:
        found = []
        totals = self.by_connection
        for c in self.rpc:
            counted = totals.get(c.tcp.id)
            if counted is None and self.narrow is not None:
                continue
            found.append(
                ConnectionInfo(
                    id=c.tcp.id,
                    client=c.client,
                    server=c.server,
                    protocol=c.rpc.protocol,
                    protocol_source=c.rpc.protocol_source,
                    requests=counted.requests if counted else 0,
                    bytes_up=counted.up if counted else 0,
                    bytes_down=counted.down if counted else 0,
                )
            )
        return found

    def _workers(self) -> list[WorkerInfo]:
        by_server: dict[str, list[Seen]] = {}
        for c in self.rpc:
            by_server.setdefault(c.server, []).append(c)
        return [self._worker(server, links) for server, links in by_server.items()]

    def _worker(self, server: str, links: list[Seen]) -> WorkerInfo:
        ids = [c.tcp.id for c in links]
        per_token = self.totals.by_connection(tokens=True)
        shares = [t for i in ids if (t := per_token.get(i)) is not None]
        times = self.totals.workers.get(links[0].rpc.server)
        tallies = [t for i in ids if (t := self.by_connection.get(i)) is not None]
        path = self.paths[links[0].rpc.server]
        longest = max(links, key=lambda c: c.payload)
        return WorkerInfo(
            server=server,
            protocol=longest.rpc.protocol,
            connections=len(links),
            devices=sorted(times.devices) if times else [],
            bytes_up=sum(t.up for t in tallies),
            bytes_down=sum(t.down for t in tallies),
            bytes_up_per_token=self._per(sum(s.up for s in shares)),
            bytes_down_per_token=self._per(sum(s.down for s in shares)),
            wait_ms_per_token=self._per(times.waited_ns / 1e6 if times else 0),
            rtt_ms=_ms(path.total_ns),
            rtt_source=path.source or None,
            tcp_rtt_ms=_ms(path.tcp_ns),
        )

    def _commands(self) -> list[CommandInfo]:
        found = [
            CommandInfo(name, c.tally.requests, c.tally.up, c.tally.down, c.response.summary_ms())
            for name, c in self.totals.by_command().items()
        ]
        return sorted(found, key=lambda c: -(c.bytes_up + c.bytes_down))

    def _phases(self) -> dict[str, PhaseInfo]:
        narrow = self.narrow
        found = {}
        for phase, tally in self.totals.by_phase().items():
            more = self.totals.phases[phase]
            passes, rows = (more.passes, more.rows) if narrow is None else narrow.passes(phase)
            found[phase] = PhaseInfo(
                bytes_up=tally.up,
                bytes_down=tally.down,
                frames=tally.frames,
                round_trips=tally.round_trips,
                passes=passes,
                rows=rows,
                duration_s=more.duration_ns / 1e9,
            )
        return found

    def _roles(self) -> list[RoleInfo]:
        found = []
        generation = self.totals.by_role(tokens=True)
        for role, tally in self.totals.by_role().items():
            part = generation.get(role)
            up, down = (part.up, part.down) if part else (0, 0)
            found.append(
                RoleInfo(
                    role=role,
                    bytes_up=tally.up,
                    bytes_down=tally.down,
                    frames=tally.frames,
                    bytes_per_token=self._per(up + down),
                    bytes_up_per_token=self._per(up),
                    bytes_down_per_token=self._per(down),
                )
            )
        return found

    def _requests(self) -> list[RequestInfo]:
        narrow = self.narrow
        found = []
        for number, r in enumerate(self.session.run.requests, 1):
            info = RequestInfo(
                number=number,
                start_s=(r.start_ns - self.first_ns) / 1e9,
                prompt_tokens=r.prompt_tokens,
                generated_tokens=r.generated_tokens,
                passes=r.passes,
                draft_tokens=r.draft_tokens,
                accepted_tokens=r.accepted_tokens,
                prefill_s=r.prefill_s,
                decode_s=r.decode_s,
                inferred=r.inferred,
            )
            if narrow is None or narrow.keep(number, r, info):
                found.append(info)
        return found

    def _per_token(self) -> PerToken:
        parts = list(self.totals.by_role(tokens=True).values())
        time = token_time(self.totals, self.generating, self.paths)
        used = [
            path
            for server, path in self.paths.items()
            if path.total_ns is not None
            and (worker := self.totals.workers.get(server)) is not None
            and worker.waits
        ]
        slowest = max(used, key=lambda path: path.total_ns or 0, default=None)
        return PerToken(
            tokens=self.tokens,
            bytes_up=self._per(sum(t.up for t in parts)),
            bytes_down=self._per(sum(t.down for t in parts)),
            round_trips=self._per(sum(t.round_trips for t in parts)),
            ms=time.ms,
            client_ms=time.client_ms,
            network_ms=time.network_ms,
            server_ms=time.server_ms,
            rtt_ms=_ms(slowest.total_ns) if slowest else None,
            rtt_source=slowest.source if slowest else None,
        )

    def _paths(self) -> dict[tuple[str, int], PathRtt]:
        """Round-trip times by worker."""
        by_server: dict[tuple[str, int], list[Seen]] = {}
        for c in self.rpc:
            by_server.setdefault(c.rpc.server, []).append(c)
        return {
            server: path_rtt(
                self.totals.workers.get(server),
                [ns for c in links for ns in c.rtt_ns(c.rpc.client_side)],
                [ns for c in links for ns in c.rtt_ns(1 - c.rpc.client_side)],
            )
            for server, links in by_server.items()
        }

    def _others(self) -> list[OtherInfo]:
        ranked = sorted(self.others, key=lambda c: -c.payload)
        return [
            OtherInfo(c.client, c.server, c.payload) for c in ranked[:_NAMED_OTHERS] if c.payload
        ]


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6

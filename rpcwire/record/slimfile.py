"""A slim pcapng file: sections, comments, interfaces and counters around the slim packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpcwire import __version__
from rpcwire.capture.writer import PcapngWriter, Sink
from rpcwire.record.anonymize import Anonymizer
from rpcwire.record.slimmer import MOST_HELD, Slimmer

_ABOUT = "tensor contents left out by rpcwire slim; lengths and times are those of the original"


@dataclass(slots=True)
class Counters:
    """What an interface and the capturer counted; None: not known."""

    received: int | None = None
    dropped: int | None = None
    os_dropped: int | None = None


class SlimFile:
    """Writes a slim capture; feed it the bytes of the full one.

    Args:
        sink: receives the file.
        name: what errors call the full capture.
        comments: for the section, besides those of the full capture.
        anonymize: replace addresses and leave out all comments of the full capture.
        most_held: see Slimmer.

    Attributes:
        slimmer: with the session that decoded the capture.
        records: packets written. written: bytes of them.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        name: str = "the capture",
        comments: Sequence[str] = (),
        hardware: str = "",
        os: str = "",
        anonymize: bool = False,
        most_held: int = MOST_HELD,
    ) -> None:
        self._sink = sink
        self._comments = list(comments)
        self._maker = hardware, os
        self._anonymizer = Anonymizer() if anonymize else None
        self._writer: PcapngWriter | None = None
        self._interfaces: dict[int, int] = {}
        self.slimmer = Slimmer(
            self._write, name=name, anonymizer=self._anonymizer, most_held=most_held
        )
        self.records = 0
        self.written = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the full capture.

        Raises:
            CaptureError: they are not those of a capture.
        """
        self.slimmer.feed(chunk)

    def finish(self, counters: Counters | None = None, comments: Sequence[str] = ()) -> None:
        """Nothing more will come.

        Args:
            counters: of the capturer, where the full capture does not hold them.
            comments: what is known only at the end.

        Raises:
            CaptureError: nothing was a capture.
        """
        self.slimmer.finish()
        health = self.slimmer.health
        writer = self._open()
        remarks = list(comments)
        remarks.append(
            f"slimmed from {health.packets:,} packets, {health.wire_bytes:,} bytes on the wire"
        )
        if self.slimmer.hurried:
            remarks.append(f"{self.slimmer.hurried:,} packets lost payload for want of memory")
        if not self._interfaces:
            self._interfaces[1] = writer.interface(1)
        for link, number in self._interfaces.items():
            known = counters or self._counters(link)
            writer.statistics(
                health.last_ns or 0,
                interface=number,
                received=known.received,
                dropped=known.dropped,
                os_dropped=known.os_dropped,
                comments=remarks,
            )
            remarks = []

    def _counters(self, link: int) -> Counters:
        mine = [i for i in self.slimmer.health.interfaces if i.link_type == link]

        def total(values: list[int | None]) -> int | None:
            known = [v for v in values if v is not None]
            return sum(known) if known else None

        return Counters(
            total([i.received for i in mine]),
            total([i.dropped for i in mine]),
            total([i.os_dropped for i in mine]),
        )

    def _open(self) -> PcapngWriter:
        if self._writer is None:
            health = self.slimmer.health
            hidden = self._anonymizer is not None
            old = [] if hidden else [c for c in health.comments if c not in self._comments]
            about = _ABOUT + ("; addresses replaced" if hidden else "")
            hardware, os = ("", "") if hidden else self._maker
            self._writer = PcapngWriter(
                self._sink,
                comments=[*self._comments, *old, about],
                hardware=hardware,
                os=os,
                application=f"rpcwire {__version__}",
            )
        return self._writer

    def _write(self, time_ns: int, link: int, data: bytes, wire: int, ip: int) -> None:
        writer = self._open()
        number = self._interfaces.get(link)
        if number is None:
            names = [i.name for i in self.slimmer.health.interfaces if i.link_type == link]
            name = "" if self._anonymizer else ", ".join(dict.fromkeys(filter(None, names)))
            number = self._interfaces[link] = writer.interface(max(link, 0), name=name)
        if self._anonymizer is not None:
            data = self._anonymizer.packet(data, link, ip)
        writer.packet(time_ns, data, interface=number, length=wire)
        self.records += 1
        self.written += len(data)

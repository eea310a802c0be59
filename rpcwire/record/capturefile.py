"""The pcapng files that recording writes: comments, interfaces and counters around the packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rpcwire import __version__
from rpcwire.capture.health import LEFT_OUT, CaptureHealth
from rpcwire.capture.writer import PcapngWriter, Sink
from rpcwire.record.about import About
from rpcwire.record.anonymize import Anonymizer
from rpcwire.record.copier import Copier
from rpcwire.record.slimmer import MOST_HELD, Slimmer
from rpcwire.session import Session

_SLIM = f"{LEFT_OUT}; lengths and times are those of the original"
_HIDDEN = "addresses replaced"


@dataclass(slots=True)
class Counters:
    """What the capturer counted; None: not known.

    Attributes:
        received: packets that reached it. dropped: of the interface. os_dropped: of the kernel,
            for want of room in the capture buffer.
    """

    received: int | None = None
    dropped: int | None = None
    os_dropped: int | None = None


class Core(Protocol):
    """What turns the bytes of a capture into the records that are written."""

    @property
    def health(self) -> CaptureHealth:
        """Of the capture."""

    @property
    def session(self) -> Session:
        """What was decoded."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""

    def finish(self) -> None:
        """Nothing more will come."""

    @property
    def remarks(self) -> list[str]:
        """What is to be said at the end."""


class CaptureFile:
    """Writes what a capture holds to a pcapng file; feed it the capture's bytes.

    Args:
        sink: receives the file.
        full: keep every byte instead of leaving tensor contents out.
        name: what errors call the capture.
        about: of the section; comments of the capture are added.
        anonymize: replace addresses and leave out all that names hosts.
        most_held: see Slimmer.
        interface: name for interfaces that the capture has no name for.
        rotate: called when `file_bytes` were written, gives the next file's sink.
        file_bytes: see rotate.

    Attributes:
        core: with the session that decoded the capture.
        records: packets written. written: bytes of them.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        full: bool = False,
        name: str = "the capture",
        about: About = About(),  # noqa: B008 - frozen
        anonymize: bool = False,
        most_held: int = MOST_HELD,
        interface: str = "",
        rotate: Callable[[], Sink] | None = None,
        file_bytes: int = 0,
    ) -> None:
        self._sink = sink
        self._about = about
        self._full = full
        self._anonymizer = Anonymizer() if anonymize else None
        self._writer: PcapngWriter | None = None
        self._interfaces: dict[int, int] = {}
        self._interface = interface
        self._rotate = rotate
        self._file_bytes = file_bytes
        self._in_file = 0
        self.core: Core
        if full:
            self.core = Copier(self._write, name=name)
        else:
            self.core = Slimmer(
                self._write, name=name, anonymizer=self._anonymizer, most_held=most_held
            )
        self._told: list[str] = []
        self.records = 0
        self.written = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the capture.

        Raises:
            CaptureError: they are not those of a capture.
        """
        self.core.feed(chunk)

    def finish(self, counters: Counters | None = None, comments: Sequence[str] = ()) -> None:
        """Nothing more will come.

        Args:
            counters: of the capturer, where the capture does not hold them.
            comments: what is known only at the end.

        Raises:
            CaptureError: nothing was a capture.
        """
        self.core.finish()
        writer = self._open()
        remarks = [*comments, *self.core.remarks]
        if self._anonymizer is None:  # those that came behind the first packet
            remarks = [c for c in self.core.health.comments if c not in self._told] + remarks
        if not self._interfaces:
            self._interfaces[1] = writer.interface(1)
        for link, number in self._interfaces.items():
            known = counters or self._counters(link)
            counters = Counters() if counters else None  # they are those of all interfaces
            writer.statistics(
                self.core.health.last_ns or 0,
                interface=number,
                received=known.received,
                dropped=known.dropped,
                os_dropped=known.os_dropped,
                comments=remarks,
            )
            remarks = []

    def _counters(self, link: int) -> Counters:
        mine = [i for i in self.core.health.interfaces if i.link_type == link]

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
            about, hidden = self._about, self._anonymizer is not None
            comments = list(about.comments)
            if not hidden:
                comments += [c for c in self.core.health.comments if c not in comments]
            if not self._full:
                comments.append(f"{_SLIM}; {_HIDDEN}" if hidden else _SLIM)
            self._told = list(dict.fromkeys(comments))
            self._writer = PcapngWriter(
                self._sink,
                comments=self._told,
                hardware="" if hidden else about.hardware,
                os="" if hidden else about.os,
                application=f"rpcwire {__version__}",
            )
        return self._writer

    def _write(self, time_ns: int, link: int, data: bytes, wire: int, ip: int) -> None:
        if self._rotate is not None and self._in_file >= self._file_bytes:
            self._sink, self._writer, self._in_file = self._rotate(), None, 0
            self._interfaces = {}
        writer = self._open()
        number = self._interfaces.get(link)
        if number is None:
            names = [i.name for i in self.core.health.interfaces if i.link_type == link]
            name = ", ".join(dict.fromkeys(filter(None, names))) or self._interface
            name = "" if self._anonymizer else name
            number = self._interfaces[link] = writer.interface(max(link, 0), name=name)
        if self._anonymizer is not None:
            data = self._anonymizer.packet(data, link, ip)
        writer.packet(time_ns, data, interface=number, length=wire)
        self.records += 1
        self.written += len(data)
        self._in_file += len(data) + 32

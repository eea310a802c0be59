"""Small writers of pcapng and pcap, for recording, slimming and tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

SECTION_HEADER, INTERFACE, ENHANCED_PACKET, STATISTICS = 0x0A0D0D0A, 1, 6, 5
BYTE_ORDER_MAGIC = 0x1A2B3C4D
OPT_COMMENT, SHB_HARDWARE, SHB_OS, SHB_APPLICATION = 1, 2, 3, 4
IF_NAME, IF_TSRESOL = 2, 9
ISB_IFRECV, ISB_IFDROP, ISB_OSDROP = 4, 5, 7
NANOSECONDS = 1_000_000_000
MAX_OPTION = 0xFFFF


class Sink(Protocol):
    """What the writers write to; a binary file is one."""

    def write(self, data: bytes, /) -> object:
        """Take the bytes."""


class PcapngWriter:
    """Writes one little-endian section with times in nanoseconds.

    Args:
        sink: receives the file, in pieces that end with whole blocks.
        comments: comments of the section.
        hardware: shb_hardware, left out when empty.
        os: shb_os, left out when empty.
        application: shb_userappl, left out when empty.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        comments: Sequence[str] = (),
        hardware: str = "",
        os: str = "",
        application: str = "",
    ) -> None:
        self._sink = sink
        self._interfaces = 0
        options = [(OPT_COMMENT, text.encode()) for text in comments]
        for code, text in ((SHB_HARDWARE, hardware), (SHB_OS, os), (SHB_APPLICATION, application)):
            if text:
                options.append((code, text.encode()))
        # A section length of -1 means that it is not known beforehand.
        self._block(
            SECTION_HEADER, struct.pack("<IHHq", BYTE_ORDER_MAGIC, 1, 0, -1) + _options(options)
        )

    def interface(self, link: int, *, name: str = "", snaplen: int = 0) -> int:
        """Describe an interface.

        Args:
            link: LINKTYPE number.
            name: if_name, left out when empty.
            snaplen: most bytes captured of a packet; 0: no limit.

        Returns:
            The number by which packets refer to it.
        """
        options = [(IF_TSRESOL, b"\x09")]
        if name:
            options.insert(0, (IF_NAME, name.encode()))
        self._block(INTERFACE, struct.pack("<HHI", link, 0, snaplen) + _options(options))
        self._interfaces += 1
        return self._interfaces - 1

    def packet(
        self,
        time_ns: int,
        data: bytes,
        *,
        interface: int = 0,
        length: int | None = None,
        comment: str = "",
    ) -> None:
        """Write a packet.

        Args:
            time_ns: ns since the Unix epoch.
            data: the captured bytes, link header included.
            interface: number that `interface` returned.
            length: bytes on the wire, when the packet was cut.
            comment: comment of the packet, left out when empty.
        """
        head = struct.pack(
            "<IIIII",
            interface,
            time_ns >> 32,
            time_ns & 0xFFFFFFFF,
            len(data),
            len(data) if length is None else length,
        )
        options = _options([(OPT_COMMENT, comment.encode())]) if comment else b""
        self._block(ENHANCED_PACKET, head + _padded(data) + options)

    def statistics(
        self,
        time_ns: int,
        *,
        interface: int = 0,
        received: int | None = None,
        dropped: int | None = None,
        os_dropped: int | None = None,
        comments: Sequence[str] = (),
    ) -> None:
        """Write what an interface counted; None leaves a counter out.

        Args:
            time_ns: ns since the Unix epoch.
            interface: number that `interface` returned.
            received: packets received.
            dropped: packets dropped by the interface for lack of resources.
            os_dropped: packets dropped by the operating system.
            comments: comments of the block.
        """
        counters = ((ISB_IFRECV, received), (ISB_IFDROP, dropped), (ISB_OSDROP, os_dropped))
        options = [(OPT_COMMENT, text.encode()) for text in comments]
        options += [(code, struct.pack("<Q", n)) for code, n in counters if n is not None]
        head = struct.pack("<III", interface, time_ns >> 32, time_ns & 0xFFFFFFFF)
        self._block(STATISTICS, head + _options(options))

    def _block(self, kind: int, body: bytes) -> None:
        size = len(body) + 12
        self._sink.write(struct.pack("<II", kind, size) + body + struct.pack("<I", size))


class PcapWriter:
    """Writes a little-endian pcap file with times in nanoseconds.

    Args:
        sink: receives the file, in pieces that end with whole records.
        link: LINKTYPE number.
        snaplen: as the file header gives it.
    """

    def __init__(self, sink: Sink, link: int, *, snaplen: int = 262144) -> None:
        self._sink = sink
        sink.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, link))

    def packet(self, time_ns: int, data: bytes, *, length: int | None = None) -> None:
        """Write a packet.

        Args:
            time_ns: ns since the Unix epoch.
            data: the captured bytes, link header included.
            length: bytes on the wire, when the packet was cut.
        """
        seconds, rest = divmod(time_ns, NANOSECONDS)
        wire = len(data) if length is None else length
        self._sink.write(struct.pack("<IIII", seconds, rest, len(data), wire) + data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(options: list[tuple[int, bytes]]) -> bytes:
    """Encode options; one that is too long for its 16-bit length is cut."""
    if not options:
        return b""
    out = [
        struct.pack("<HH", code, len(value[:MAX_OPTION])) + _padded(value[:MAX_OPTION])
        for code, value in options
    ]
    return b"".join(out) + bytes(4)

"""Bytes of a capture file in, packets or segments out, as soon as they are complete."""

from __future__ import annotations

from collections.abc import Iterator

from rpcwire.capture.blocks import SECTION_MAGIC
from rpcwire.capture.buffer import Arena
from rpcwire.capture.dissect import dissect
from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.inflate import GZIP_MAGIC, ZSTD_MAGIC, GzipInflater, Inflater, ZstdInflater
from rpcwire.capture.packets import PacketBatch
from rpcwire.capture.pcap import VARIANTS, PcapReader
from rpcwire.capture.pcapng import PcapngReader
from rpcwire.capture.segments import SegmentBatch
from rpcwire.errors import CaptureError

MAGIC_BYTES = 4


class PacketParser:
    """Cuts packets from the bytes of one capture file, pushed in pieces of any size.

    Container and compression are told by their magic numbers.

    Args:
        health: counts and notes are added here.
        name: what notes and errors call the file.
        file: index of the file among the inputs.
    """

    def __init__(self, health: CaptureHealth, name: str, file: int = 0) -> None:
        self._health = health
        self._name = name
        self._file = file
        self._arena = Arena()
        self._inflater: Inflater | None = None
        self._container: PcapReader | PcapngReader | None = None
        self._head: bytes | None = b""

    @property
    def plain(self) -> bool:
        """Whether bytes may be read right into `space`: the file is known to be uncompressed."""
        return self._head is None and self._inflater is None

    def space(self, size: int, least: int) -> memoryview:
        """Writable room for the next bytes of a plain file; `advance` tells how many came.

        Args:
            size: bytes wanted.
            least: bytes that will do where so many are left of the current block.
        """
        return self._arena.space(size, least)

    def advance(self, size: int) -> Iterator[PacketBatch]:
        """Packets completed by bytes written to `space`; exhaust before the next call."""
        self._arena.advance(size)
        yield from self._read()

    def feed(self, chunk: bytes) -> Iterator[PacketBatch]:
        """Packets completed by these bytes; exhaust the iterator before the next call.

        Raises:
            CaptureError: the bytes are not those of a capture, or zstd is not at hand.
        """
        if self._head is not None:
            chunk = self._head + chunk
            self._head = chunk
            if len(chunk) < MAGIC_BYTES:
                return
            self._head = None
            if chunk.startswith(GZIP_MAGIC):
                self._inflater = GzipInflater(self._health, self._name)
            elif chunk.startswith(ZSTD_MAGIC):
                self._inflater = ZstdInflater(self._health, self._name)
        for piece in (chunk,) if self._inflater is None else self._inflater.feed(chunk):
            self._arena.append(piece)
            yield from self._read()

    def finish(self) -> Iterator[PacketBatch]:
        """Packets that only the end of the file completes.

        Raises:
            CaptureError: nothing in the file was a capture.
        """
        if self._inflater is not None:
            self._inflater.finish()
        if self._container is None:
            size = len(self._head or b"") + self._arena.end
            if size:
                reason = f"is not a capture: it ends after {size} bytes"
            elif self._inflater is not None:
                reason = "is no use: nothing in it could be decompressed; fetch or record it again"
            else:
                reason = "is empty: record again, or wait until the capture has begun"
            raise CaptureError(f"{self._name} {reason}")
        yield from self._container.finish()
        if not self._container.opened:
            raise CaptureError(
                f"{self._name} is not a capture: it begins like one, but its header is not whole"
            )

    def _read(self) -> Iterator[PacketBatch]:
        arena = self._arena
        if self._container is None:
            if arena.end - arena.start < MAGIC_BYTES:
                return
            magic = arena.data[arena.start : arena.start + MAGIC_BYTES].tobytes()
            if magic == SECTION_MAGIC:
                self._container = PcapngReader(arena, self._health, self._name, self._file)
            elif magic in VARIANTS:
                self._container = PcapReader(arena, self._health, self._name)
            else:
                raise CaptureError(
                    f"{self._name} is not a capture: it begins with {magic.hex(' ')}; "
                    "pcap or pcapng is needed, plain, gzip or zstd"
                )
        yield from self._container.read()


class SegmentParser:
    """The same with TCP segments out, for live recording.

    Args:
        health: counts and notes are added here.
        name: what notes and errors call the file.
        file: index of the file among the inputs.
    """

    def __init__(self, health: CaptureHealth, name: str, file: int = 0) -> None:
        self.packets = PacketParser(health, name, file)
        self._health = health
        self._file = file

    def feed(self, chunk: bytes) -> Iterator[SegmentBatch]:
        """Segments completed by these bytes; exhaust the iterator before the next call.

        Raises:
            CaptureError: the bytes are not those of a capture, or zstd is not at hand.
        """
        return self._dissect(self.packets.feed(chunk))

    def advance(self, size: int) -> Iterator[SegmentBatch]:
        """Segments completed by `size` bytes written to `packets.space`."""
        return self._dissect(self.packets.advance(size))

    def finish(self) -> Iterator[SegmentBatch]:
        """Segments that only the end of the file completes.

        Raises:
            CaptureError: nothing in the file was a capture.
        """
        return self._dissect(self.packets.finish())

    def _dissect(self, batches: Iterator[PacketBatch]) -> Iterator[SegmentBatch]:
        for batch in batches:
            yield dissect(batch, self._file, self._health)

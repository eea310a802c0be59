"""What is known about the captures themselves: how much, from where, and how damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

# A hostile file must not fill memory with remarks.
MAX_REMARKS = 200
#: How rpcwire marks, in comments, that it left contents out, and what is wrong with a recording.
LEFT_OUT = "tensor contents left out by rpcwire"
WARNING = "warning: "


@dataclass(slots=True)
class InterfaceHealth:
    """One interface of one file, and what its statistics say.

    Attributes:
        file: index of the file among the inputs.
        name: if_name, or "" where the file does not say.
        link_type: LINKTYPE number.
        received, dropped, os_dropped: isb_ifrecv, isb_ifdrop, isb_osdrop; None when not recorded.
    """

    file: int
    name: str
    link_type: int
    received: int | None = None
    dropped: int | None = None
    os_dropped: int | None = None


@dataclass(slots=True)
class CaptureHealth:
    """Counts over all input files; grows while they are read.

    Attributes:
        files: names of the inputs, in the order given.
        link_types: names of the link types met, in order of appearance.
        packets: packets of any kind.
        wire_bytes: bytes of whole packets as they were on the wire.
        captured_bytes: bytes of packets present in the files.
        tcp_packets: packets handed on as segments (before any time window).
        outside_window: segments left out because of the time window that was asked for.
        first_ns, last_ns: earliest and latest capture time, ns since the epoch; None: no packet.
        truncated_packets: packets of which the snap length cut a part.
        other_packets: packets that are not TCP, by kind ("UDP", "ARP", "link type 147").
        fragments: IP fragments; they are not reassembled.
        cut_headers: packets cut so short that no TCP header could be read.
        malformed: packets whose headers contradict themselves.
        skipped_blocks: pcapng blocks of unknown types.
        skipped_bytes: bytes passed over in search of the next credible record.
        interfaces: one entry per interface of each pcapng file.
        comments: comments stored in the files.
        made_by: hardware, system and program that wrote the files.
        notes: one sentence for each damage and doubt.
    """

    files: list[str] = field(default_factory=list)
    link_types: list[str] = field(default_factory=list)
    packets: int = 0
    wire_bytes: int = 0
    captured_bytes: int = 0
    tcp_packets: int = 0
    outside_window: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    truncated_packets: int = 0
    other_packets: dict[str, int] = field(default_factory=dict)
    fragments: int = 0
    cut_headers: int = 0
    malformed: int = 0
    skipped_blocks: int = 0
    skipped_bytes: int = 0
    interfaces: list[InterfaceHealth] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    made_by: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def slimmed(self) -> bool:
        """Whether rpcwire left contents out of the files on purpose."""
        return any(comment.startswith(LEFT_OUT) for comment in self.comments)

    def note(self, sentence: str) -> None:
        """Add a sentence, once, and not without bound."""
        if len(self.notes) < MAX_REMARKS and sentence not in self.notes:
            self.notes.append(sentence)

    def comment(self, text: str) -> None:
        """Keep a comment of the file, once, and not without bound."""
        if text and len(self.comments) < MAX_REMARKS and text not in self.comments:
            self.comments.append(text)

    def maker(self, text: str) -> None:
        """Keep what the file says about its origin, once, and not without bound."""
        if text and len(self.made_by) < MAX_REMARKS and text not in self.made_by:
            self.made_by.append(text)

    def other(self, kind: str, count: int) -> None:
        """Count packets that are not TCP."""
        if count:
            if kind not in self.other_packets and len(self.other_packets) >= MAX_REMARKS:
                kind = "other"
            self.other_packets[kind] = self.other_packets.get(kind, 0) + count

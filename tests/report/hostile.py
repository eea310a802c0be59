"""A capture whose every text tries to run something in a page."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from bundled import capture

from rpcwire.capture.health import CaptureHealth
from rpcwire.capture.parser import PacketParser
from rpcwire.capture.writer import PcapngWriter

#: For tensor names, which have 63 bytes.
ATTACKS = (
    b"</script><img src=x onerror=document.title='run'>",
    b"\"'><svg onload=document.title='run'>",
    b"<!--<script>document.title='run'</script>",
    b"@@script@@ ${1} \xe2\x80\xae\xe2\x80\xa8 \xff\xfe\x07",
)
COMMENT = "</title></style><script>document.title='run'</script><img src=http://127.0.0.1:9/x>"
FILE = "a'\"><img src=x onerror=document.title='run'>&lt;.pcapng"
_NAME = re.compile(rb"(?:result_output|l_out-\d|inp_pos|attn_inp_kq_mask|RPC0\[[^\0]*)\0+")


def write(folder: Path) -> Path:
    """Write it, and say where."""
    count = 0

    def attack(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if len(found[0]) < 52:
            return found[0]
        count += 1
        return ATTACKS[count % len(ATTACKS)].ljust(len(found[0]), b"\0")[: len(found[0])]

    parser = PacketParser(CaptureHealth(), "recording")
    raw = gzip.decompress(Path(capture("v7.0-llama-server")).read_bytes())
    path = folder / FILE
    with path.open("wb") as out:
        writer = PcapngWriter(out, comments=(COMMENT,))
        writer.interface(1, name="lo")
        for batch in (*parser.feed(raw), *parser.finish()):
            view = batch.data.data
            for time_ns, at, size in zip(
                batch.time_ns.tolist(), batch.offset.tolist(), batch.captured.tolist(), strict=True
            ):
                writer.packet(time_ns, _NAME.sub(attack, bytes(view[at : at + size])))
    assert count > 100
    return path

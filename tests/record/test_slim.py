"""Slim captures read like the full ones, and hold nothing of what was said."""

from __future__ import annotations

import gzip
import random
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rpcwire.capture.reader import read_segments
from rpcwire.errors import CaptureError, UsageError
from rpcwire.ggml.frame import Frame
from rpcwire.record.capturefile import CaptureFile
from rpcwire.record.events import Event, Kind
from rpcwire.record.slimming import slim
from rpcwire.record.synthetic import SyntheticCapture
from rpcwire.session import Session

from .books import PARTS, books

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = sorted(p.name for p in CAPTURES.glob("*.pcap.gz"))
#: One of each kind: what the rest adds is more of the same, at the price of seconds.
CHOSEN = [
    n for n in NAMES
    if re.match(r"v(2.0.0-llama-bench|7.0-(link|load|mtp-partial|qwen35-plain|two))", n)
]  # fmt: skip


def slimmed(raw: bytes, *, anonymize: bool = False, step: int = 1 << 20) -> bytes:
    out = BytesIO()
    target = CaptureFile(out, anonymize=anonymize)
    for at in range(0, len(raw), step):
        target.feed(raw[at : at + step])
    target.finish()
    return out.getvalue()


@cache
def full(name: str) -> bytes:
    with gzip.open(CAPTURES / name) as file:
        return file.read()


@cache
def whole(name: str) -> dict[str, Any]:
    """The books of a capture that is not slim."""
    return books(full(name))


@pytest.mark.parametrize("name", CHOSEN)
def test_same_books_and_meaning(name: str) -> None:
    raw = full(name)
    out = slimmed(raw)
    before, after = whole(name), books(out)
    for part in PARTS:
        assert after[part] == before[part], part
    assert len(out) < 0.55 * len(raw)
    assert after["truncated"] > before["truncated"]


@pytest.mark.parametrize("step", [1000, 65536])
def test_pieces_of_any_size_give_the_same_books(step: int) -> None:
    name = "v7.0-output-local.pcap.gz"
    before, after = whole(name), books(slimmed(full(name), step=step))
    for part in PARTS:
        assert after[part] == before[part], part


def test_slimming_twice_changes_nothing() -> None:
    once = slimmed(full("v7.0-two-servers.pcap.gz"))
    twice = slimmed(once)
    assert books(twice)["frames"] == books(once)["frames"]
    assert books(twice)["health"].captured_bytes == books(once)["health"].captured_bytes


def secrets(raw: bytes) -> list[bytes]:
    """16 bytes from the middle of everything that must not be told, where it is no mere pattern."""
    found: list[bytes] = []
    told = {"weights", "embedding_in", "unused_input", "logits", "hidden_out", "hidden_in",
            "sampling", "draft_hidden", "kv_state", "recurrent_state"}  # fmt: skip

    contents: dict[Frame, bytes] = {}
    roles: list[Frame] = []
    session = Session(on_frame=roles.append)
    keep = session.run.feed

    def remember(arrived: Iterable[Frame]) -> None:
        found = list(arrived)
        contents.update({f: f.content for f in found if f.content})
        keep(found)

    session.run.feed = remember  # type: ignore[method-assign]
    for batch in read_segments([BytesIO(raw)]):
        session.feed(batch)
    session.finish()
    for frame in roles:
        data = contents.get(frame, b"")
        middle = data[len(data) // 2 :][:16]
        moved = frame.direction == 0 or frame.command == "GET_TENSOR"
        if frame.role in told and moved and len(set(middle)) >= 12:
            found.append(middle)
    return found


@pytest.mark.parametrize("name", ["v7.0-mtp-partial.pcap.gz", "v3.6.1-llama-bench.pcap.gz"])
def test_no_contents_are_left(name: str) -> None:
    raw = full(name)
    wanted = secrets(raw)
    assert len(wanted) > 50
    out = slimmed(raw)
    assert sum(secret in raw for secret in wanted) > 0.5 * len(
        wanted
    )  # the others straddle packets
    assert not [secret for secret in wanted if secret in out]


def test_anonymous_names_no_address() -> None:
    raw = full("v7.0-link-1gbe.pcap.gz")
    assert b"10.77.0." in raw
    out = slimmed(raw, anonymize=True)
    assert b"10.77.0." not in out
    assert bytes([10, 77, 0]) not in re.sub(rb"[^\x00-\x7f]", b"", out)
    before, after = books(raw), books(out)
    for part in PARTS:
        assert after[part] == before[part], part


def test_joins_a_load_to_few_records() -> None:
    out = books(slimmed(full("v7.0-link-1gbe.pcap.gz")))
    assert out["health"].packets < 4000  # of 9,374 packets of 1,448 bytes


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "slim.pcapng"
    path.write_bytes(slimmed(full("v7.0-link-1gbe.pcap.gz")))
    done = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "tcp.len", "-Y", "tcp.analysis.lost_segment"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ""
    done = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "tcp.len", "-e", "tcp.srcport"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    total = sum(int(length) for length, _ in rows if length)
    assert total == sum(sum(s[0]) for s in books(path)["streams"])


def test_refuses_what_is_no_capture(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"hello, this is text")
    with pytest.raises(CaptureError, match="not a capture"):
        slim(bad, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))
    with pytest.raises(UsageError, match="overwritten"):
        slim(bad, bad)
    with pytest.raises(CaptureError, match="cannot read"):
        slim(tmp_path / "none", tmp_path / "out")


def test_without_memory_it_drops_rather_than_grows() -> None:
    raw = full("v7.0-two-servers.pcap.gz")
    out = BytesIO()
    target = CaptureFile(out, most_held=1000)
    for at in range(0, len(raw), 4096):
        target.feed(raw[at : at + 4096])
    target.finish()
    assert any("for want of memory" in remark for remark in target.core.remarks)
    after = books(out.getvalue())
    assert [s[0] for s in after["streams"]] == [s[0] for s in books(raw)["streams"]]


def conversation(*said: tuple[int, bytes]) -> bytes:
    """A capture of one connection: (side, bytes) in turn."""
    out = BytesIO()
    capture = SyntheticCapture(out, "test")
    ends = b"10.0.0.1\t40000\n10.0.0.2\t8080"
    capture.take(Event(Kind.OPEN, 0, 1, 1_000_000_000, ends))
    capture.take(Event(Kind.READY, 1, 1, 1_000_100_000, b""))
    for k, (side, data) in enumerate(said):
        capture.take(Event(Kind.DATA, side, 1, 1_001_000_000 + k * 1_000_000, data))
    capture.take(Event(Kind.FIN, 0, 1, 2_000_000_000, b""))
    capture.take(Event(Kind.FIN, 1, 1, 2_000_000_000, b""))
    capture.finish()
    return out.getvalue()


def test_other_connections_keep_their_lengths_only() -> None:
    raw = conversation(
        (0, b"GET /?q=secret HTTP/1.1\r\n\r\n"), (1, b"HTTP/1.1 200 OK\r\n\r\nsecret")
    )
    out = slimmed(raw)
    assert b"secret" in raw
    assert b"secret" not in out
    assert b"HTTP" not in out
    assert books(out)["streams"] == books(raw)["streams"]


def test_unknown_commands_of_forks_keep_no_payload() -> None:
    hello = bytes([14]) + (24).to_bytes(8, "little") + bytes(24)
    answer = (28).to_bytes(8, "little") + bytes([7, 0, 0, 0]) + bytes(24)
    odd = bytes([40]) + (500).to_bytes(8, "little") + bytes(20) + b"secret" * 80
    count = bytes([15]) + bytes(8)
    raw = conversation((0, hello), (1, answer), (0, odd + count), (1, b"\4" + bytes(7) + bytes(4)))
    out = slimmed(raw)
    assert b"secret" not in out
    assert books(out)["frames"] == books(raw)["frames"]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_captures_give_a_capture_or_our_own_error(seed: int) -> None:
    chance = random.Random(seed)
    raw = bytearray(full("v7.0-output-local.pcap.gz")[:80_000])
    for _ in range(chance.choice((1, 10, 100))):
        at = chance.randrange(24, len(raw))
        raw[at : at + chance.randrange(30)] = chance.randbytes(chance.randrange(30))
    try:
        out = slimmed(bytes(raw), anonymize=seed % 2 == 1, step=20_000)
    except CaptureError:
        return
    books(out)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_name_that_promises_compression_keeps_it(tmp_path: Path, suffix: str) -> None:
    if suffix == ".zst":
        pytest.importorskip("zstandard")
    plain, small = tmp_path / "a.pcapng", tmp_path / f"a.pcapng{suffix}"
    source = CAPTURES / NAMES[0]
    slim(source, plain)
    slim(source, small)
    assert small.stat().st_size < plain.stat().st_size / 2
    assert small.read_bytes()[:2] != plain.read_bytes()[:2]
    a, b = books(plain), books(small)
    assert all(a[part] == b[part] for part in PARTS)


def test_a_name_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"only \.gz and \.zst"):
        slim(CAPTURES / NAMES[0], tmp_path / "a.pcapng.xz")
    assert not list(tmp_path.iterdir())

"""Any bytes as input: an answer or one line, never a traceback, and books that balance."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from bundled import capture
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rpcwire.cli.run import run

_WHOLE = gzip.decompress(Path(capture("v7.0-output-local")).read_bytes())
#: Load, warm-up and the first tokens without the bulk of the weights.
SMALL = _WHOLE[:60_000] + _WHOLE[3_950_000:4_150_000]

quick = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "25")),  # `make fuzz` tries far more
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


def outcome(data: bytes, *arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.pcap"
        path.write_bytes(data)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run([*arguments, str(path)])
    return status, out.getvalue(), err.getvalue()


def check(data: bytes) -> None:
    status, out, err = outcome(data, "analyze", "--json")
    if status == 2:
        assert out == ""
        assert err.count("\n") == 1
        assert "an error in rpcwire itself" not in err
        return
    assert (status, err) == (0, "")
    document = json.loads(out)
    decoded = document["capture"]["stream_bytes"] - document["capture"]["undecoded_bytes"]
    for rows in (document["phases"].values(), document["roles"], document["commands"]):
        assert sum(row["bytes_up"] + row["bytes_down"] for row in rows) == decoded
    status, out, err = outcome(data, "frames", "--json")
    assert status == 0
    assert all(line.startswith("rpcwire: ") for line in err.splitlines())
    assert "an error in rpcwire itself" not in err
    assert sum(json.loads(line)["bytes"] for line in out.splitlines()) == decoded
    assert outcome(data, "analyze")[0] == 0


@quick
@given(
    st.lists(
        st.tuples(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=8)),
        min_size=1,
        max_size=12,
    )
)
@example([(24 + 16 + 66 + 1, b"\xff" * 7)])
def test_changed_bytes(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(SMALL)
    for at, new in changes:
        data[at : at + len(new)] = new
    check(bytes(data))


@quick
@given(st.integers(0, len(SMALL)), st.integers(0, 4000))
def test_a_part_taken_out(at: int, size: int) -> None:
    check(SMALL[:at] + SMALL[at + size :])


@quick
@given(st.binary(max_size=400))
@example(b"")
@example(b"\x1f\x8b")
@example(b"\x28\xb5\x2f\xfd")
@example(SMALL[:24])
def test_anything(data: bytes) -> None:
    check(data)

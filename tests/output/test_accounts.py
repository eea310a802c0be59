"""The accounts of every bundled capture: balanced, as counted by the programs, as tshark reads."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from bundled import NAMES, analysis, counts, told, tshark


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (files("rpcwire.data") / "schema" / f"{name}.json").read_text()
    )
    return found


def both(rows: Any) -> int:
    return sum(row.bytes_up + row.bytes_down for row in rows)


def test_all_captures_are_there() -> None:
    assert len(NAMES) == 15


@pytest.mark.parametrize("name", NAMES)
def test_books_balance(name: str) -> None:
    a = analysis(name)
    decoded = a.capture.stream_bytes - a.capture.undecoded_bytes
    assert both(a.phases.values()) == both(a.roles) == both(a.commands) == decoded
    assert both(a.connections) == both(a.workers) == decoded
    lost = (a.capture.undecoded_bytes_up, a.capture.undecoded_bytes_down)
    assert sum(lost) == a.capture.undecoded_bytes
    assert sum(p.frames for p in a.phases.values()) == sum(r.frames for r in a.roles)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_those_the_program_counted(name: str) -> None:
    found = [
        (r.prompt_tokens, r.generated_tokens, r.draft_tokens, r.accepted_tokens)
        for r in analysis(name).requests
    ]
    assert found == counts(name)


@pytest.mark.parametrize("name", [n for n in NAMES if "requests" in told(n)])
def test_time_per_token_is_the_servers(name: str) -> None:
    for request, report in zip(analysis(name).requests, told(name)["requests"], strict=True):
        assert request.decode_s is not None
        assert request.decode_s * 1e3 == pytest.approx(report["predicted_ms"], rel=0.03)
    ms = sum(r["predicted_ms"] for r in told(name)["requests"])
    tokens = sum(r["predicted_n"] - 1 for r in told(name)["requests"])
    assert analysis(name).per_token.tokens == tokens
    assert analysis(name).per_token.ms == pytest.approx(ms / tokens, rel=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_document_fits_its_schema(name: str) -> None:
    document = json.loads(json.dumps(analysis(name).to_dict(), allow_nan=False))
    jsonschema.Draft202012Validator(schema("analyze")).validate(document)
    assert next(iter(document)) == "schema_version"


@pytest.mark.parametrize("name", NAMES)
def test_protocol_is_the_recorded_one(name: str) -> None:
    assert {c.protocol for c in analysis(name).connections} == {told(name)["protocol"]}
    assert {c.protocol_source for c in analysis(name).connections} == {"hello"}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("name", ["v7.0-two-servers", "v7.0-load-cold-snap400", "v7.0-link-1gbe"])
def test_bytes_are_tsharks(name: str) -> None:
    """The relative sequence numbers at the end of each stream are its length."""
    fields = [f"-e{field}" for field in ("tcp.stream", "tcp.srcport", "tcp.nxtseq", "frame.len")]
    rows = tshark(name, "-Y", "tcp", "-Tfields", *fields)
    tops: dict[tuple[str, str], int] = {}
    for stream, port, following, _ in rows:
        key = (stream, port)
        tops[key] = max(tops.get(key, 1), int(following or 1))
    ends = tshark(name, "-Y", "tcp.flags.fin == 1", "-Tfields", *fields[:2])
    fins = {(stream, port) for stream, port in ends}
    # A FIN takes a sequence number, the SYN has the first.
    length = sum(top - 1 - (key in fins) for key, top in tops.items())
    assert analysis(name).capture.stream_bytes == length
    assert analysis(name).capture.wire_bytes == sum(int(row[3]) for row in rows)
    assert analysis(name).capture.packets == len(rows)


def test_nothing_is_unknown_where_all_was_captured() -> None:
    for name in NAMES:
        if "snap" in name:
            continue
        a = analysis(name)
        assert both(r for r in a.roles if r.role == "unknown") == 0, name
        assert a.phases["other"].frames == 0, name
        assert a.capture.undecoded_bytes == a.capture.missing_bytes == 0, name


def test_cut_packets_are_named() -> None:
    a = analysis("v7.0-load-cold-snap400")
    assert a.capture.truncated_bytes > 0
    assert a.capture.undecoded_bytes > 0
    assert any("cut by the snap length" in note for note in a.capture.notes)
    assert any("could not be decoded" in note for note in a.capture.notes)


def test_one_remote_worker_holds_everything() -> None:
    """Bytes per step of a dense model on one worker, protocol 7.0: see the wire's own formula."""
    a = analysis("v7.0-llama-server")
    by_role = {r.role: r for r in a.roles}
    steps = a.per_token.tokens
    header, hidden, vocabulary = 314, 4 * 256, 4 * 1024
    assert by_role["embedding_in"].bytes_up_per_token == header + hidden
    assert by_role["unused_input"].bytes_up_per_token == 3 * header + 2 * hidden + 8
    assert by_role["positions"].bytes_up_per_token == header + 4
    assert by_role["kv_indices"].bytes_up_per_token == 2 * (header + 8)
    assert by_role["kv_mask"].bytes_up_per_token == header + 2 * 256
    assert by_role["logits"].bytes_up_per_token == 321
    assert by_role["logits"].bytes_down_per_token == 8 + vocabulary
    assert a.phases["decode"].passes == steps == 38
    assert a.per_token.round_trips == 1


def test_two_workers_share_a_token() -> None:
    a = analysis("v7.0-two-servers")
    assert [w.server for w in a.workers] == ["127.0.0.1:50052", "127.0.0.1:50053"]
    up = sum(w.bytes_up_per_token or 0 for w in a.workers)
    down = sum(w.bytes_down_per_token or 0 for w in a.workers)
    assert up == pytest.approx(a.per_token.bytes_up)
    assert down == pytest.approx(a.per_token.bytes_down)
    assert a.per_token.round_trips == 2


@pytest.mark.parametrize("name", NAMES)
def test_workers_are_not_waited_for_longer_than_tokens_take(name: str) -> None:
    a = analysis(name)
    waits = [w.wait_ms_per_token for w in a.workers]
    assert sum(w or 0 for w in waits) <= (a.per_token.ms or 0)

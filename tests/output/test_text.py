"""What a user reads: width, words, and every kind of capture."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest
from bundled import FOLDER, NAMES, analysis, capture

import rpcwire
from rpcwire.output.analysis_text import analysis_text
from rpcwire.output.terminal import Style, has_colour, printable, table
from rpcwire.output.units import bytes_text, ms_text, number_text, seconds_text, share_text

PLAIN = Style()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verbose", [0, 1])
def test_fits_eighty_columns(name: str, verbose: int) -> None:
    text = analysis_text(analysis(name), PLAIN, verbose=verbose)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.startswith("llama.cpp RPC ")


def test_the_answer_comes_first() -> None:
    text = analysis_text(analysis("v7.0-two-servers"), PLAIN)
    answer = " ".join(text.split("\n\n")[0].split())
    assert "2 workers (127.0.0.1:50052, 127.0.0.1:50053)" in answer
    assert "167 prompt tokens computed and 24 generated" in answer
    assert re.search(
        r"Each generated token costs [\d.]+ kB up, [\d.]+ kB down, 2 round trips", answer
    )
    assert "graphs sent in full" in answer
    assert "WORKER" in text


def test_drafts_are_told() -> None:
    text = analysis_text(analysis("v7.0-qwen35-mtp"), PLAIN)
    assert "5 of 53 drafted tokens" in " ".join(text.split())
    assert "5/53" in text


def test_requests_side_by_side_are_told() -> None:
    a = deepcopy(analysis("v7.0-llama-server"))
    assert "side by side" not in analysis_text(a, PLAIN)
    a.requests[1].start_s = a.requests[0].start_s
    a.requests[1].prefill_s = a.requests[0].prefill_s
    text = " ".join(analysis_text(a, PLAIN).split())
    assert re.search(r"tokens/s per request, [\d,]+ in all: they ran side by side\)", text)


def test_undecoded_bytes_have_their_direction() -> None:
    text = analysis_text(analysis("v7.0-load-cold-snap400"), PLAIN)
    row = next(line for line in text.splitlines() if line.startswith("undecoded"))
    assert re.fullmatch(r"undecoded +[\d.]+ MB( +-)+", row)


def test_a_load_only() -> None:
    a = rpcwire.analyze(capture("v7.0-llama-server"), until=0.1)
    assert a.requests == []
    text = " ".join(analysis_text(a, PLAIN).split())
    assert "The load sent" in text
    assert "No tokens were computed" in text


def test_no_rpc(tmp_path: Path) -> None:
    """Another protocol on another port: say what is there, and what to do."""
    a = rpcwire.analyze(capture("v7.0-llama-server"), ports={80})
    assert a.connections == []
    assert a.capture.stream_bytes == 0
    assert a.capture.other_connections == 13
    text = " ".join(analysis_text(a, PLAIN).split())
    assert "No ggml RPC was found in 3,169 packets" in text
    assert "13 other TCP connections" in text
    assert "If -p was given, leave it out" in text


def test_how_the_version_is_known() -> None:
    a = deepcopy(analysis("v7.0-llama-server"))
    assert analysis_text(a, PLAIN).startswith("llama.cpp RPC 7.0.0 with 1 worker")
    for connection in a.connections:
        connection.protocol_source = "inferred"
    assert analysis_text(a, PLAIN).startswith("llama.cpp RPC 7.0.0 (inferred) with 1 worker")
    a.workers[0].protocol = "none"
    assert analysis_text(a, PLAIN).startswith("llama.cpp RPC without HELLO (a build before 1.0.0)")


def test_an_empty_window() -> None:
    found = {}
    for since, until in ((100, 200), (-9, -2), (0.9, 0.9)):
        a = rpcwire.analyze(capture("v7.0-llama-server"), since=since, until=until)
        found[since] = " ".join(analysis_text(a, PLAIN).split())
    assert found[100].startswith("The window begins 100.000 s into a capture of ")
    assert found[-9].startswith("The window ends before the capture begins. ")
    assert found[0.9].startswith("No ggml RPC frame began in the window from 0.900 s to 0.900 s.")


def test_a_window_is_named() -> None:
    a = rpcwire.analyze(capture("v7.0-llama-server"), since=0.01, until=0.1)
    text = " ".join(analysis_text(a, PLAIN).split())
    assert " MB from 0.010 s to 0.100 s; no pass of a model." in text


def test_a_prompt_that_was_cut(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap.gz"
    cut.write_bytes(Path(capture("v7.0-qwen35-mtp")).read_bytes()[:1_000_000])
    a = rpcwire.analyze(cut)
    assert [(r.prompt_tokens, r.generated_tokens) for r in a.requests] == [(163, 0)]
    text = " ".join(analysis_text(a, PLAIN).split())
    assert "the capture ends before the prompt does" in text


def test_connections_that_only_asked_are_counted() -> None:
    a = analysis("v4.0.1-llama-server")
    some, every = (analysis_text(a, PLAIN, verbose=v).splitlines() for v in (1, 2))
    assert "and 319 smaller" in " ".join(some)
    assert len(every) - len(some) == 318


def test_an_empty_capture(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    text = analysis_text(rpcwire.analyze(str(empty)), PLAIN)
    assert "no packets" in text


def test_colour_only_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = analysis("v7.0-output-local")
    coloured = analysis_text(a, Style(colour=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == analysis_text(a, PLAIN)


def test_when_colour_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colour(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Terminal())  # type: ignore[arg-type]


def test_model_beside_the_arithmetic() -> None:
    a = rpcwire.analyze(capture("v7.0-two-servers"), gguf=_model())
    assert a.model is not None
    assert (a.model.hidden_size, a.model.boundaries) == (256, 2)
    assert a.model.floor_bytes_per_token == 2 * 256 * 2
    measured = (a.per_token.bytes_up or 0) + (a.per_token.bytes_down or 0)
    assert a.model.measured_over_floor == pytest.approx(measured / 1024)
    text = " ".join(analysis_text(a, PLAIN).split())
    assert "The 16-bit floor, 2 x 256 x 2 boundaries, is 1.02 kB per token" in text


@pytest.mark.parametrize(
    ("name", "count"), [("v7.0-llama-server", 1), ("v7.0-output-local", 2), ("v7.0-qwen35-mtp", 1)]
)
def test_boundaries_of_a_run(name: str, count: int) -> None:
    a = rpcwire.analyze(capture(name), gguf=_model())
    assert a.model is not None
    assert a.model.boundaries == count


def test_another_model_is_noticed() -> None:
    a = rpcwire.analyze(capture("v7.0-load-cold-snap400"), gguf=_model())
    assert a.model is not None
    assert any("is it the model that was run?" in note for note in a.model.notes)


def _model() -> str:
    return str(FOLDER / "micro-llama.header.gguf")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"), (0, "-"), (1, "1 B"), (999, "999 B"), (1000, "1.00 kB"), (12_398.7, "12.4 kB"),
        (999_499, "999 kB"), (999_500, "1.00 MB"), (6_501_954, "6.50 MB"), (0.4, "0.40 B"),
        (1 << 63, "9.22 EB"),
    ],
)  # fmt: skip
def test_bytes(count: float | None, text: str) -> None:
    assert bytes_text(count) == text


def test_other_units() -> None:
    assert [number_text(v) for v in (None, 0, 0.0123, 0.5, 9.999, 12.34, 684.2, 12345)] == [
        "-", "0", "0.012", "0.50", "10.0", "12.3", "684", "12,345",
    ]  # fmt: skip
    assert [ms_text(v) for v in (None, 0.016, 1.456, 12_345.0)] == [
        "-",
        "0.016 ms",
        "1.46 ms",
        "12.3 s",
    ]
    assert [seconds_text(v) for v in (0, 0.5, 1.5, 130, 7300)] == [
        "-", "500 ms", "1.50 s", "2 min 10 s", "2 h 01 min",
    ]  # fmt: skip
    assert [share_text(p, 100) for p in (0, 0.4, 45)] == ["-", "< 1 %", "45 %"]


def test_tables_leave_out_empty_columns() -> None:
    assert (
        table(("A", "B", "C"), [("x", "-", "1"), ("y", "-", "22")], PLAIN) == "A   C\nx   1\ny  22"
    )


def test_text_of_a_capture_steers_no_terminal() -> None:
    assert printable("a\x1b[2Jb\x07") == "a?[2Jb?"


def test_the_document_has_no_nan() -> None:
    from rpcwire.analysis import plain

    assert json.dumps(plain([float("nan"), float("inf"), 1.5]), allow_nan=False) == (
        "[null, null, 1.5]"
    )

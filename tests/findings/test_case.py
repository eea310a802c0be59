"""Figures of docs/case-mtp.md that come from bundled captures."""

from __future__ import annotations

import re

import pytest

from rpcwire.compare import compare
from rpcwire.diagnosis import diagnose
from rpcwire.findings import stated_link
from tests.findings.lab import CAPTURES, diagnosed, path

CASE = (CAPTURES.parent / "docs" / "case-mtp.md").read_text("utf-8")
_ROW = re.compile(
    r"(?m)^\| ([\d.]+) ms, ([\d.]+) ([MG])bit/s \| ([\d.]+) ms \| [\d.]+ ms "
    r"\| (?:the (client)|([a-z-]+)(?: ([\d.]+))?) \|$"
)


def test_the_symptom() -> None:
    found = compare(path("v7.0-qwen35-plain"), path("v7.0-qwen35-mtp"))
    a, b, account = found.a, found.b, found.b.speculation
    assert account is not None
    assert f"takes {a.ms:.2f} ms without and {b.ms:.2f} ms with it" in CASE
    assert f"explain the {found.ms_more:.2f} ms: the client's own time" in CASE
    assert f"| round trips | {a.round_trips:.0f} | {b.round_trips:.2f} |" in CASE
    assert f"| up | {a.bytes_up / 1e3:.1f} kB | {b.bytes_up / 1e3:.0f} kB |" in CASE
    assert f"| down | {a.bytes_down / 1e3:.2f} kB | {b.bytes_down / 1e3:.1f} kB |" in CASE
    assert f"| client | {a.client_ms:.2f} ms | {b.client_ms:.2f} ms |" in CASE
    assert f"takes {account.round_ms:.1f} ms; a plain token takes {account.plain_ms:.2f}" in CASE
    assert f"returns {account.tokens_per_round:.2f} tokens" in CASE
    by_name = {c.name: c.ms for c in account.causes}
    for name in ("draft-round-trips", "graph-resent"):
        assert f"`{name}` ({by_name[name]:.2f} ms)" in CASE


def test_what_the_capture_alone_says() -> None:
    account = diagnosed("v7.0-qwen35-mtp").speculation
    assert account is not None
    assert f"at most {account.plain_ms:.2f} ms" in CASE


@pytest.mark.parametrize("row", _ROW.findall(CASE), ids=lambda row: f"{row[0]} ms")
def test_a_round_on_another_link(row: tuple[str, ...]) -> None:
    rtt, rate, unit, said, client, cause, cost = row
    link = stated_link("a link", float(rtt), float(rate) * (1000 if unit == "G" else 1))
    account = diagnose(path("v7.0-qwen35-mtp"), link=link).speculation
    assert account is not None
    assert account.round_ms == pytest.approx(float(said), rel=0.01)
    assert account.causes[0].name == (cause or "the client's own time")
    assert bool(client) != bool(cause)
    if cost:
        assert account.causes[0].ms == pytest.approx(float(cost), rel=0.01)


def test_the_table_of_links_was_read() -> None:
    assert len(_ROW.findall(CASE)) == 7

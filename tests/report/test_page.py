"""The page as a document: whole, self-contained, safe, usable without sight or script."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from copy import copy
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bundled import capture
from click.testing import CliRunner

from rpcwire.cli.report import command
from rpcwire.output.markup import Markup, element, text
from rpcwire.report import html
from rpcwire.report.gather import gather
from rpcwire.report.page import run_page
from rpcwire.report.samples import KINDS, MOST_FRAMES, Exchange, Sample, Sampler, _Kept

from . import hostile
from .pages import compared, page, run

NAMES = ("v7.0-qwen35-mtp", "v7.0-two-servers", "v2.0.0-llama-bench", "v7.0-load-cold-snap400")
_VOID = {"meta", "link", "br", "hr", "input", "col"}


class Document(HTMLParser):
    """Elements with their attributes, and a check that all are closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.words.setdefault(self._open[-1], []).append(data)

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module", params=[*NAMES, "two runs"])
def document(request: pytest.FixtureRequest) -> Document:
    if request.param == "two runs":
        return Document(compared("v7.0-qwen35-plain", "v7.0-qwen35-mtp"))
    return Document(page(request.param))


def test_ids_are_unique_and_every_reference_leads_somewhere(document: Document) -> None:
    ids = [a["id"] for _, a in document.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in document.elements:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            for target in (attributes.get(name) or "").split():
                assert target in ids
        link = attributes.get("href") or ""
        if link.startswith("#"):
            assert link[1:] in ids


def test_landmarks_headings_and_names(document: Document) -> None:
    assert document.elements[0] == ("html", {"lang": "en"})
    for tag in ("main", "header", "footer", "h1"):
        assert len(document.all(tag)) == 1
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert len(document.all("table")) == len(document.all("caption"))
    assert all(a.get("scope") in ("col", "row") for a in document.all("th"))
    svgs = document.all("svg")
    assert svgs and all(a.get("role") == "img" and a.get("aria-labelledby") for a in svgs)
    first = next(a for tag, a in document.elements if tag == "a")
    assert first == {"class": "skip", "href": "#main"}


def test_nothing_is_asked_for(document: Document) -> None:
    for tag, attributes in document.elements:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "audio", "video")
        assert "src" not in attributes
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))


@pytest.mark.parametrize("name", NAMES)
def test_policy_names_the_only_script_and_style(name: str) -> None:
    source = page(name)
    policy = next(
        a["content"] for a in Document(source).all("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    assert policy is not None and policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_the_page_says_what_the_accounts_say() -> None:
    words = " ".join(w for some in Document(page("v7.0-two-servers")).words.values() for w in some)
    found = run("v7.0-two-servers")
    for finding in found.findings:
        assert finding.id in words and finding.remedy in words
    for part in (*found.analysis.workers, *found.analysis.connections):
        assert part.server in words
    assert "1 Gbit Ethernet" in words
    assert found.floor_bytes == 512 * 2
    assert "1.02 kB" in words


def test_without_tokens_or_rpc_there_is_a_page_that_says_so(tmp_path: Path) -> None:
    words = page("v7.0-load-cold-snap400")
    assert "No token is generated in this capture" in words or "tokens/s" in words
    other = run_page(gather(capture("v7.0-llama-server"), ports={80}))
    assert "No ggml RPC was found" in other
    assert "waterfall" not in Document(other).words.get("h2", [])
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert "The capture holds no packets." in run_page(gather(empty))


def samples(source: str) -> dict[str, Any]:
    (block,) = re.findall(r'<script id="wf-data"[^>]*>(.*?)</script>', source)
    found: dict[str, Any] = json.loads(block)
    return found


def test_the_waterfall_has_every_frame_of_a_token() -> None:
    data = samples(page("v7.0-two-servers"))
    token = data["samples"][0]
    tensors = [data["strings"][f[2]] for f in token["frames"]]
    assert len(token["frames"]) == 18
    assert any("result_output F32 1024" in t for t in tensors)
    assert [lane[1] for lane in token["lanes"]] == ["client", "wire", "worker", "worker"]
    assert all(0 <= f[7] <= f[8] <= token["length"] for f in token["frames"])


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    source = run_page(gather(hostile.write(tmp_path)))
    document = Document(source)
    assert {tag for tag, _ in document.elements}.isdisjoint({"img"})
    assert len(document.all("script")) == 2  # the data and the page's own
    data = samples(source)
    assert any("</script><img" in words for words in data["strings"])
    assert any("@@script@@" in words for words in data["strings"])
    assert "\u202e" not in source and "\x07" not in source
    assert any(hostile.COMMENT in w for w in document.words["li"])
    assert any(hostile.FILE in w for w in document.words["title"])


def test_markup_is_the_only_way_in() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert element("p", "<b>", Markup("<i></i>"), title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;<i></i></p>'
    )
    assert "<" not in html.data("x", "</script><!--&\u2028")[len('<script id="x"') : -9]


# -- the command -----------------------------------------------------------------------------------


def test_command_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    result = CliRunner().invoke(command, [capture("v7.0-two-servers"), "-o", str(out)])
    assert result.exit_code == 0 and result.output == ""
    assert out.read_text("utf-8") == page("v7.0-two-servers")


def test_command_writes_to_standard_output_and_narrows() -> None:
    whole, part = (
        CliRunner().invoke(command, [capture("v7.0-llama-server"), "-o", "-", *more]).stdout
        for more in ([], ["--request", "2"])
    )
    assert whole.startswith("<!DOCTYPE html>")
    assert "2 requests" in whole and "1 request," in part


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compare", "-o", "x"], "two captures"),
        (["-o", "no-such-folder/out.html"], "No such file"),
        (["--compare", capture("v7.0-two-servers"), "--request", "1", "-o", "x"], "whole runs"),
        ([], "output"),
    ],
)
def test_bad_usage(arguments: list[str], words: str) -> None:
    from rpcwire.cli.run import run as run_line

    result = CliRunner().invoke(command, [capture("v7.0-two-servers"), *arguments])
    assert result.exit_code != 0
    assert words in f"{result.output} {result.exception}"
    assert run_line(["report", capture("v7.0-two-servers"), *arguments]) == 2


@pytest.mark.slow
def test_the_worst_page_is_a_few_megabytes() -> None:
    """Every sample as long as it may be, and no word twice."""
    found = copy(run("v7.0-two-servers"))
    found.evidence = copy(found.evidence)
    sampler = found.evidence.sampler = Sampler()
    for kind in KINDS:
        kept = sampler.kept[kind] = _Kept()
        for i in range(200):
            sample = Sample(kind, 1000 * len(sampler.kept) + i, 1, 0, 10**9 + i)
            kept.add(sample, [])
            sample.exchanges = [_long(i, k) for k in range(MOST_FRAMES)]
    size = len(run_page(found).encode())
    assert 1_000_000 < size < 5_000_000


def _long(i: int, k: int) -> Exchange:
    name = f"{i:05}-{k:05}".ljust(63, "x")
    at = k * 10**6
    up, down = (at, at + 10**5), (at + 2 * 10**5, at + 10**6)
    words = ("SET_TENSOR", "hidden_in", "decode")
    shape = "123456×123456×123456"
    return Exchange(
        10**9 + k, 1, ("10.0.0.1", 50052), 0, *words, i, name, "Q4_K_M", shape, 10**9, up,
        10**9, 10**9, down, 0,
    )  # fmt: skip

"""What the documentation says of recorded runs is what the program says today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rpcwire.cli.run import run
from tests.findings.pages import PAGES, example

#: Findings whose runs are made by tests, byte by byte.
MADE = {"README", "dialect-disagrees-with-hello", "mid-stream-start", "rdma-takeover"}


@pytest.mark.parametrize("name", sorted(p.stem for p in PAGES.glob("*.md") if p.stem not in MADE))
def test_example_of_a_page_is_current(name: str) -> None:
    texts = example(PAGES / f"{name}.md")
    assert texts is not None
    written, current = texts
    assert written == current, "python -m tests.findings.pages writes it anew"


_CAPTURE = re.compile(r"`rpcwire diagnose (captures/\S+?)[ `]")
_GREP = re.compile(r"`rpcwire frames CAPTURE((?: \| grep \S+?)+)`")


@pytest.mark.parametrize(
    "page",
    [p for p in sorted(PAGES.glob("*.md")) if _GREP.search(p.read_text()) and p.stem not in MADE],
    ids=lambda page: page.stem,
)
def test_frames_that_a_page_greps_for_are_there(page: Path, capsys) -> None:
    text = page.read_text("utf-8")
    capture = _CAPTURE.search(text)
    assert capture is not None
    assert run(["frames", str(PAGES.parents[1] / capture[1])]) == 0
    lines = capsys.readouterr().out.splitlines()
    for command in _GREP.findall(text):
        found = lines
        for word in re.findall(r"grep (\S+)", command):
            found = [line for line in found if word in line]
        assert found, command

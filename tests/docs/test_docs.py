"""Links lead somewhere, pages are reached, and what extending.md shows works."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest

from rpcwire.cli.commands import COMMANDS
from rpcwire.data import __name__ as DATA
from rpcwire.findings.facts import Facts
from rpcwire.ggml import versions

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("captures/**/*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(?ms)^```.*?^```")
EXTENDING = (ROOT / "docs" / "extending.md").read_text("utf-8")


def _targets(page: Path) -> list[str]:
    return [t for t in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))) if "://" not in t]


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"(?m)^#+ (.*)$", page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _targets(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), target


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [(page.parent / t.partition("#")[0]).resolve() for t in _targets(page)]
    assert set(ROOT.glob("docs/**/*.md")) <= reached


def test_every_command_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert all(f"`{name}`" in index for name in COMMANDS)


def _shown(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", EXTENDING)


def test_the_rows_that_extending_shows_are_rows() -> None:
    row, check = _shown("python")
    made = eval(row.strip().rstrip(","), vars(versions))
    assert isinstance(made, versions.Row)
    assert made.base in versions.DIALECTS
    space: dict[str, object] = {}
    exec(compile(check, "check", "exec", dont_inherit=True), space)
    assert {"ID", "find"} <= set(space)
    assert hasattr(Facts, "finding")
    link, gpu = map(tomllib.loads, _shown("toml"))
    data = ROOT / DATA.replace(".", "/")
    (fields,) = link["links"].values()
    assert set(fields) == set(tomllib.loads((data / "links.toml").read_text())["links"]["1gbe"])
    (fields,) = gpu.values()
    assert set(fields) == set(tomllib.loads((data / "gpus.toml").read_text())["gpus"]["rtx-3060"])


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "notebook.md").read_text("utf-8")
    printed = io.StringIO()
    space: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", page):
            exec(compile(block, "notebook", "exec", dont_inherit=True), space)
    shown = "".join(re.findall(r"(?ms)^```text\n(.*?)^```", page))
    assert printed.getvalue().split() == shown.split()

"""The page in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpcwire.report.gather import gather
from rpcwire.report.page import run_page

from . import hostile
from .browser import Browser
from .pages import compared, page

SPAN = "(c => c.dataset.to - c.dataset.from)(document.querySelector('.wf-chart'))"
NAMES = ("v7.0-qwen35-mtp", "v7.0-two-servers", "v2.0.0-llama-bench", "v7.0-load-cold-snap400")
#: Looked at by the quick tests; all of them by `make check`.
QUICK = (("v7.0-qwen35-mtp", 1280), ("v7.0-two-servers", 390))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "report.html"
    path.write_text(page("v7.0-two-servers"), "utf-8")
    browser.open(path)
    return browser


@pytest.mark.parametrize(
    ("name", "width"),
    [
        pytest.param(name, width, marks=[] if (name, width) in QUICK else [pytest.mark.slow])
        for name in (*NAMES, "two runs")
        for width in (1280, 390)
    ],
)
def test_quiet_and_in_one_piece(browser: Browser, tmp_path: Path, name: str, width: int) -> None:
    path = tmp_path / "report.html"
    source = compared("v7.0-qwen35-plain", "v7.0-qwen35-mtp") if name == "two runs" else page(name)
    path.write_text(source, "utf-8")
    for dark in (False, True):
        browser.open(path, width=width, dark=dark)
        assert browser.said == []
        assert browser.asked == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth") == width
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") is not dark
        hidden = browser.run("getComputedStyle(document.querySelector('figure .narrow')).display")
        assert (hidden == "none") is (width > 600)


def test_zoom_by_buttons(shown: Browser) -> None:
    whole = shown.run(SPAN)
    for what, factor in (("in", 0.5), ("in", 0.25), ("out", 0.5), ("whole", 1)):
        shown.run(f"document.querySelector('[data-do={what}]').click()")
        assert shown.run(SPAN) == pytest.approx(whole * factor)
    shown.run("document.querySelector('[data-do=in]').click()")
    before = shown.run("+document.querySelector('.wf-chart').dataset.from")
    shown.run("document.querySelector('[data-do=later]').click()")
    assert shown.run("+document.querySelector('.wf-chart').dataset.from") > before


def test_zoom_and_walk_by_keyboard(shown: Browser) -> None:
    whole = shown.run(SPAN)
    shown.run("document.querySelector('.wf-chart').focus()")
    shown.key("+")
    assert shown.run(SPAN) == pytest.approx(whole / 2)
    shown.key("0")
    assert shown.run(SPAN) == pytest.approx(whole)
    shown.key("ArrowDown")
    shown.key("ArrowDown")
    words = shown.run("document.querySelector('.detail').textContent")
    assert words.startswith("Packet ") and "SET_TENSOR" in words
    assert shown.run("document.querySelectorAll('.wf-row.chosen').length") == 1


def test_zoom_by_wheel_only_when_it_is_meant(shown: Browser) -> None:
    whole = shown.run(SPAN)
    shown.run(
        "document.querySelector('.wf-chart').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    x, y = shown.run(
        "(r => [r.x + r.width * .7, r.y + 30])"
        "(document.querySelector('.wf-chart').getBoundingClientRect())"
    )

    def wheel(modifiers: int) -> None:
        shown.call(
            "Input.dispatchMouseEvent",
            type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-200, modifiers=modifiers,
        )  # fmt: skip
        shown.run("new Promise(done => setTimeout(done, 100))")

    control = 2
    wheel(control)
    assert shown.run(SPAN) < whole
    shown.run("document.querySelector('[data-do=whole]').click(); document.activeElement.blur()")
    wheel(0)
    assert shown.run(SPAN) == pytest.approx(whole)


def test_drag_moves(shown: Browser) -> None:
    shown.run(
        "document.querySelector('.wf-chart').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    shown.run("document.querySelector('[data-do=in]').click()")
    before = shown.run("+document.querySelector('.wf-chart').dataset.from")
    x, y = shown.run(
        "(r => [r.x + r.width * .7, r.y + 30])"
        "(document.querySelector('.wf-chart').getBoundingClientRect())"
    )
    for kind, at, buttons in (
        ("mousePressed", x, 1), ("mouseMoved", x - 60, 1), ("mouseReleased", x - 60, 0),
    ):  # fmt: skip
        shown.call(
            "Input.dispatchMouseEvent",
            type=kind, x=at, y=y, button="left", buttons=buttons, clickCount=1,
        )  # fmt: skip
    assert shown.run("+document.querySelector('.wf-chart').dataset.from") > before


def test_another_token(shown: Browser) -> None:
    said = shown.run("document.querySelector('.said').textContent")
    shown.run(
        "(s => { s.value = s.options[s.options.length - 1].value;"
        " s.dispatchEvent(new Event('change')); })(document.querySelector('select'))"
    )
    now = shown.run("document.querySelector('.said').textContent")
    assert now != said and now.startswith("Batches of a prompt")
    rows = shown.run("document.querySelectorAll('#wf-rows tr').length")
    assert rows == shown.run("document.querySelectorAll('.wf-row').length") > 0


def test_the_table_is_the_same_with_and_without_script(shown: Browser) -> None:
    """The first sample's rows come from the page, and from the script once chosen again."""
    cells = "[...document.querySelectorAll('#wf-rows tr')].map(r => r.textContent).join('|')"
    written = shown.run(cells)
    for value in ("1", "0"):
        shown.run(
            f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})"
            "(document.querySelector('select'))"
        )
    assert shown.run(cells) == written


def test_tables_sort(shown: Browser) -> None:
    table = "document.querySelector('#roles table')"
    column = f"[...{table}.tBodies[0].rows].map(r => +r.cells[1].dataset.v)"
    press = f"{table}.tHead.rows[0].cells[1].querySelector('button').click()"
    shown.run(press)
    found = shown.run(column)
    assert found == sorted(found, reverse=True) and len(set(found)) > 3
    assert shown.run(f"{table}.tHead.rows[0].cells[1].ariaSort") == "descending"
    shown.run(press)
    assert shown.run(column) == found[::-1] or shown.run(column) == sorted(found)
    shown.run(f"{table}.tHead.rows[0].cells[0].querySelector('button').click()")
    names = shown.run(f"[...{table}.tBodies[0].rows].map(r => r.cells[0].textContent)")
    assert names == sorted(names)


def test_hostile_text_does_not_run(browser: Browser, tmp_path: Path) -> None:
    found = gather(hostile.write(tmp_path))
    path = tmp_path / "report.html"
    path.write_text(run_page(found), "utf-8")
    browser.open(path)
    browser.run(
        "(s => { for (const o of s.options) { s.value = o.value;"
        " s.dispatchEvent(new Event('change')); } })(document.querySelector('select'))"
    )
    browser.run("document.querySelector('.wf-chart').focus()")
    for _ in range(12):
        browser.key("ArrowDown")
    browser.run("document.querySelectorAll('th button').forEach(b => b.click())")
    browser.run("new Promise(done => setTimeout(done, 200))")
    assert browser.run("document.title").startswith("llama.cpp RPC: a'\"><img")
    assert browser.run("document.querySelectorAll('img, svg svg, body script + img').length") == 0
    assert browser.said == []
    assert browser.asked == [path.as_uri()]


def test_it_prints(shown: Browser, tmp_path: Path) -> None:
    shown.pdf(tmp_path / "out.pdf")
    data = (tmp_path / "out.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert 3 <= data.count(b"/Type /Page\n") <= 20


def test_it_opens_at_once(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page("v7.0-qwen35-mtp"), "utf-8")
    started = time.monotonic()
    browser.open(path)
    assert time.monotonic() - started < 10
    ready = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert ready < 3000

"""Figures: documents of their own, in SVG or PNG, whatever their words are."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bundled import FOLDER, analysis, capture
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rpcwire.cli.analyze import command
from rpcwire.cli.run import run
from rpcwire.errors import UsageError
from rpcwire.output.plot import Figure, decades, log_part, ticks, write_figure
from rpcwire.output.plot_bars import role_figure, token_figure
from rpcwire.output.plot_timeline import TimelineData, timeline_figure
from rpcwire.output.plot_times import Spread, times_figure

SPACE = "{http://www.w3.org/2000/svg}"
RUN = "v7.0-llama-server"


def words(figure: Figure) -> list[str]:
    root = ElementTree.fromstring(figure.svg())
    return [node.text or "" for node in root.iter(f"{SPACE}text")]


@given(st.text(), st.text())
def test_any_words_make_a_document(title: str, label: str) -> None:
    figure = Figure(title, label, 100, 50)
    figure.text(1, 1, label)
    figure.rect(0, 0, 10, 10, "up", title)
    root = ElementTree.fromstring(figure.svg())
    assert root.get("role") == "img"
    assert root[0].tag == f"{SPACE}title" and root[1].tag == f"{SPACE}desc"


def test_roles_beside_the_floor() -> None:
    found = words(role_figure(analysis(RUN), 512))
    assert {"textbook floor", "graphs sent in full", "logits", "512 B"} <= set(found)
    assert "textbook floor" not in words(role_figure(analysis(RUN)))
    narrow = role_figure(analysis(RUN), 512, 350)
    assert narrow.width == 350 and set(words(narrow)) >= {"textbook floor", "logits"}


@pytest.mark.parametrize("width", [350, 860])
def test_nothing_lies_outside(width: int) -> None:
    data = TimelineData(
        3.0, 10.0, {"load": [1.0] * 480, "decode": [0.5] * 480}, [1e3, 0.0] * 240, [1e9] * 480,
        [(3.0, 50.0, 4000.0)],
    )  # fmt: skip
    spread = Spread("GET_TENSOR", [0.01, 0.1, 1.0, 10.0], [1, 5, 2], 0.5, 2.0)
    figures = (
        timeline_figure(data, "All", width),
        timeline_figure(TimelineData(0, 1, {}, [], []), "None", width),
        times_figure([spread] * 3, "By command", width),
        times_figure([], "Nothing", width),
        role_figure(analysis(RUN), 512, width),
        token_figure([("client", "client", 1.0), ("up", "network", 0.0)], width),
    )
    for figure in figures:
        for node in ElementTree.fromstring(figure.svg()).iter(f"{SPACE}rect"):
            x, y, w, h = (float(node.get(k, 0)) for k in ("x", "y", "width", "height"))
            assert x >= 0 and x + w <= figure.width + 1
            assert y >= 0 and y + h <= figure.height + 1


@given(st.floats(1e-9, 1e18))
def test_ticks_are_few_and_in_range(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] <= top * (1 + 1e-9)
    assert 4 <= len(found) <= 12
    assert decades(1.0, 1000.0) == [1.0, 10.0, 100.0, 1000.0]
    assert log_part(math.sqrt(1000.0), 1.0, 1000.0) == pytest.approx(0.5)


# -- files -----------------------------------------------------------------------------------------


def test_analyze_writes_svg(tmp_path: Path) -> None:
    path = tmp_path / "roles.svg"
    model = str(FOLDER / "micro-llama.header.gguf")
    result = CliRunner().invoke(command, [capture(RUN), "--gguf", model, "--plot", str(path)])
    assert result.exit_code == 0 and result.output.startswith("llama.cpp RPC")
    assert "textbook floor" in path.read_text("utf-8")


def test_png_by_the_extra(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    path = tmp_path / "roles.png"
    write_figure(role_figure(analysis(RUN)), str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_png_without_the_extra_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError, match=r"rpcwire\[plot\]"):
        write_figure(role_figure(analysis(RUN)), str(tmp_path / "roles.png"))


def test_other_endings_and_folders(tmp_path: Path) -> None:
    figure = role_figure(analysis(RUN))
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        write_figure(figure, "roles.gif")
    with pytest.raises(UsageError, match="No such file"):
        write_figure(figure, str(tmp_path / "none" / "roles.svg"))


def test_predict_draws_a_recorded_run(tmp_path: Path) -> None:
    path = tmp_path / "links.svg"
    assert run(["predict", "--from", capture("v7.0-link-1gbe"), "--plot", str(path)]) == 0
    root = ElementTree.fromstring(path.read_text("utf-8"))
    found = {node.text for node in root.iter(f"{SPACE}text")}
    assert {"The recorded link", "1 Gbit Ethernet", "Tokens/s on other links"} <= found

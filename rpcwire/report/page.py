"""The page: template, style sheet, script and sections in one file that asks for nothing else.

Nothing in it can run but its own script, and nothing is fetched: the content security policy names
the hashes of both, and text of captures is escaped besides.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING

from rpcwire import __version__
from rpcwire.output.markup import Markup, element, joined, text
from rpcwire.report import closing, compared, detail, html, overview

if TYPE_CHECKING:
    from rpcwire.compare import Comparison
    from rpcwire.report.gather import RunReport

Section = Callable[["RunReport", str, int], Markup]

#: id -> (name in the navigation, section).
_SECTIONS: dict[str, tuple[str, Section]] = {
    "verdict": ("Verdict", overview.verdict),
    "roles": ("Roles", overview.roles),
    "timeline": ("Over time", overview.course),
    "waterfall": ("One token", detail.waterfall),
    "times": ("Response times", detail.response_times),
    "findings": ("Findings", closing.findings),
    "links": ("Other links", closing.links),
    "capture": ("Capture", closing.capture),
}
#: Sections that a capture without RPC has, too.
_ALWAYS = ("verdict", "findings", "capture")
_SLOT = re.compile(r"@@(\w+)@@")


def run_page(run: RunReport) -> str:
    """One run as an HTML document."""
    names = _names(run)
    title = f"llama.cpp RPC: {', '.join(PurePath(f).name for f in run.analysis.capture.files)}"
    links = [(name, _SECTIONS[name][0]) for name in names]
    body = joined(*(_SECTIONS[name][1](run, "", 2) for name in names))
    return _page(title, links, body)


def comparison_page(found: Comparison, a: RunReport, b: RunReport) -> str:
    """Two runs as an HTML document: the comparison, then each of them."""
    parts = [compared.comparison(found, 2)]
    links = [("comparison", "A and B")]
    for letter, run in (("A", a), ("B", b)):
        prefix = f"{letter.lower()}-"
        names = _names(run)
        inner = _links([(f"{prefix}{name}", _SECTIONS[name][0]) for name in names])
        sections = [
            element("nav", element("ul", inner), aria_label=f"Sections of run {letter}"),
            *(_SECTIONS[name][1](run, prefix, 3) for name in names),
        ]
        title = f"{letter}: {', '.join(PurePath(f).name for f in run.analysis.capture.files)}"
        parts.append(html.section(f"{prefix}run", title, *sections, level=2))
        links += [(f"{prefix}run", f"Run {letter}")]
    return _page("llama.cpp RPC: two runs compared", links, joined(*parts))


def _names(run: RunReport) -> Sequence[str]:
    return list(_SECTIONS) if run.analysis.connections else _ALWAYS


def _page(title: str, links: list[tuple[str, str]], body: Markup) -> str:
    style, script = _read("page.css"), _read("page.js")
    filled = {
        "policy": _policy(style, script),
        "style": Markup(style),
        "script": Markup(script),
        "title": text(title),
        "version": text(__version__),
        "links": _links(links),
        "body": body,
    }
    # in one go, so that a slot's name in the text of a capture stays what it is
    return _SLOT.sub(lambda slot: filled[slot[1]], _read("page.html"))


def _links(links: list[tuple[str, str]]) -> Markup:
    return joined(*(element("li", element("a", words, href=f"#{name}")) for name, words in links))


def _policy(style: str, script: str) -> Markup:
    return text(
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files("rpcwire.data") / "report" / name).read_text("utf-8")

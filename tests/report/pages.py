"""Pages made once for all tests."""

from __future__ import annotations

from functools import cache

from bundled import capture

from rpcwire.compare import compare
from rpcwire.report.gather import RunReport, gather
from rpcwire.report.page import comparison_page, run_page


@cache
def run(name: str) -> RunReport:
    """A bundled capture, gathered; not to be changed."""
    return gather(capture(name))


@cache
def page(name: str) -> str:
    """Its page."""
    return run_page(run(name))


@cache
def compared(a: str, b: str) -> str:
    """The page of two captures."""
    return comparison_page(compare(capture(a), capture(b)), run(a), run(b))

"""Bundled captures as frames and passes, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from rpcwire.capture.reader import read_segments
from rpcwire.ggml.frame import Frame
from rpcwire.runs.passes import Pass
from rpcwire.session import Session
from tests.bundled import capture


def read(
    name: str, change: Callable[[Frame], None] | None = None
) -> tuple[Session, list[Frame], list[Pass]]:
    """Session, frames in order and passes in order; `change` may alter each frame beforehand."""
    frames: list[Frame] = []
    passes: list[Pass] = []
    session = Session(on_frame=frames.append, on_pass=passes.append)
    if change is not None:
        feed = session.run.feed

        def altered(arrived: Iterable[Frame]) -> None:
            found = list(arrived)
            for frame in found:
                change(frame)
            feed(found)

        session.run.feed = altered  # type: ignore[method-assign]
    for batch in read_segments([capture(name)]):
        session.feed(batch)
    session.finish()
    return session, frames, passes


@cache
def recorded(name: str) -> tuple[Session, list[Frame], list[Pass]]:
    """The same, read once for all tests, so not to be changed."""
    return read(name)

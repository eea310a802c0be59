"""What a terminal can show: width, colour, and text laid out for it."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

WIDTH = 80
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FIGURE = re.compile(r"(?<=[\d<]) (?=[\w%])")
_BOLD, _DIM, _YELLOW = "1", "2", "33"


def has_colour(stream: IO[str]) -> bool:
    """Whether a stream is a terminal that wants colour (see https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


@dataclass(frozen=True, slots=True)
class Style:
    """Marks text for a terminal, or leaves it as it is."""

    colour: bool = False

    def bold(self, text: str) -> str:
        """Headings and the answer's figures."""
        return self._mark(_BOLD, text)

    def dim(self, text: str) -> str:
        """What is secondary."""
        return self._mark(_DIM, text)

    def warn(self, text: str) -> str:
        """What deserves a look."""
        return self._mark(_YELLOW, text)

    def _mark(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


def printable(text: str) -> str:
    """Text of a capture without what would steer a terminal."""
    return _CONTROLS.sub("?", text)


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Text filled to the width; words are never broken, nor a figure from what it counts."""
    filled = textwrap.fill(
        _FIGURE.sub("\xa0", text),
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\xa0", " ")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], style: Style, left: int = 1) -> str:
    """Columns aligned: the first `left` to the left, the others to the right.

    Rows have as many cells as `head`; columns without any figure are left out.
    """
    kept = [i for i in range(len(head)) if i < left or any(row[i] not in ("", "-") for row in rows)]
    widths = [max(len(head[i]), *(len(row[i]) for row in rows)) for i in kept]

    def line(cells: Sequence[str]) -> str:
        shown = [
            cells[i].ljust(w) if i < left else cells[i].rjust(w)
            for i, w in zip(kept, widths, strict=True)
        ]
        return "  ".join(shown).rstrip()

    return "\n".join([style.bold(line(head)), *(line(row) for row in rows)])

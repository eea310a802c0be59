"""A short fuzz run; `make fuzz` is the long one."""

from __future__ import annotations

import pytest

from .fuzz import case


@pytest.mark.parametrize("seed", range(25))
def test_damaged_captures(seed: int) -> None:
    case(seed)

"""The dissector as a file, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wireshark.shark import script


@pytest.fixture(scope="session")
def lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the dissector."""
    return script(tmp_path_factory.mktemp("wireshark"))

"""These tests need real programs; `make lab` builds or finds them. All others skip them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .peers import Peers, find
from .rig import Rig, rig

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.lab)
            if os.environ.get("RPCWIRE_LAB") != "1":
                item.add_marker(pytest.mark.skip(reason="make lab"))


@pytest.fixture(scope="session")
def peers() -> Peers:
    found = find()
    assert found is not None, "no llama.cpp: python -m tests.lab.peers builds one"
    return found


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def lab(peers: Peers, tmp_path: Path) -> Iterator[Rig]:
    with rig(peers, tmp_path) as one:
        yield one

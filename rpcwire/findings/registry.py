"""Finds the checks (one module each in `checks`) and runs them all."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from rpcwire.findings import checks
from rpcwire.findings.finding import Finding, ordered

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        id: of its finding. about: what it looks for and why that matters.
        find: gives the finding, or None where there is nothing to say.
    """

    id: str
    about: str
    find: Callable[[Facts], Finding | None]


@cache
def all_checks() -> tuple[Check, ...]:
    """All checks, by id."""
    found = []
    for module in pkgutil.iter_modules(checks.__path__):
        loaded = import_module(f"{checks.__name__}.{module.name}")
        found.append(Check(loaded.ID, inspect.getdoc(loaded) or "", loaded.find))
    return tuple(sorted(found, key=lambda check: check.id))


def find(facts: Facts) -> list[Finding]:
    """What every check has to say of a run, the most expensive first."""
    results = (check.find(facts) for check in all_checks())
    return ordered([finding for finding in results if finding is not None])

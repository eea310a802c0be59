"""Captures read once for their accounts and for what the findings stand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from rpcwire.books import Books
from rpcwire.boundaries import BoundaryCounter, model_info
from rpcwire.errors import ModelError
from rpcwire.findings import Evidence, Facts, PricedLink, find
from rpcwire.narrow import Narrow
from rpcwire.reading import Reading, ReadOptions, Sources

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis
    from rpcwire.models.model import Model
    from rpcwire.runs.passes import Pass


def account(
    paths: Sources,
    *,
    gguf: str | Path | None,
    **options: Unpack[ReadOptions],
) -> Analysis:
    """Do what `analysis.analyze` promises."""
    result, facts = accounted(paths, gguf=gguf, **options)
    result.findings = [finding.to_dict() for finding in find(facts)]
    return result


def accounted(
    paths: Sources,
    *,
    gguf: str | Path | None = None,
    link: PricedLink | None = None,
    evidence: Evidence | None = None,
    **options: Unpack[ReadOptions],
) -> tuple[Analysis, Facts]:
    """The accounts, and what the findings stand on.

    Options as in `analysis.analyze`; findings are priced on `link`, None takes the recorded one,
    and stand on what `evidence` gathers.
    """
    model = _read_model(gguf)
    evidence = evidence or Evidence()
    watch = _Watch(evidence)
    reading = Reading(paths, on_frame=evidence.frame, on_pass=watch.passed, **options)
    watch.narrow = Narrow(reading) if reading.narrowed else None
    if watch.narrow is not None:
        evidence.holds = reading.holds
    reading.run()
    evidence.finish()
    result = Books(reading, watch.narrow, evidence.contacts.holes).analysis()
    if model is not None:
        result.model = model_info(model, result, watch.boundaries)
    return result, Facts(result, reading.session, reading.health, evidence, link)


def _read_model(gguf: str | Path | None) -> Model | None:
    if gguf is None:
        return None
    from rpcwire.models.gguf import read_gguf

    try:
        return read_gguf(gguf)
    except ModelError as error:
        name = Path(gguf).name
        raise ModelError(str(error) if name in str(error) else f"{gguf}: {error}") from error


@dataclass
class _Watch:
    """What is gathered beside the totals while a run is read."""

    evidence: Evidence
    boundaries: BoundaryCounter = field(default_factory=BoundaryCounter)
    narrow: Narrow | None = None

    def passed(self, p: Pass) -> None:
        """See a pass whose phase is final."""
        self.boundaries.add(p)
        self.evidence.passed(p)
        if self.narrow is not None:
            self.narrow.passed(p)

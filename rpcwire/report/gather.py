"""What a page shows of a run, gathered in one pass over its frames in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from rpcwire.accounts import accounted
from rpcwire.analysis import Analysis
from rpcwire.boundaries import BoundaryCounter
from rpcwire.findings import Evidence, Facts, Finding, find
from rpcwire.findings.speculation import Speculation, speculation
from rpcwire.predict.recorded import UploadRate
from rpcwire.reading import ReadOptions, Sources
from rpcwire.report.samples import Sampler
from rpcwire.report.timeline import Timeline
from rpcwire.report.times import Times

if TYPE_CHECKING:
    from rpcwire.ggml.frame import Frame
    from rpcwire.runs.passes import Pass

_F16 = 2
_BEFORE = ("load", "warmup", "other")


class ReportEvidence(Evidence):
    """Evidence of findings, and what figures stand on.

    Attributes:
        before, working: timelines until, and from, the first frame of a request on.
        times: of responses. sampler: single tokens. uploads: rate of large uploads.
        boundaries: changes of device in the passes seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before, self.working = Timeline(), Timeline()
        self.times = Times()
        self.sampler = Sampler()
        self.uploads = UploadRate()
        self.boundaries = BoundaryCounter()

    def frame(self, frame: Frame) -> None:
        """See a frame whose phase and role are final."""
        super().frame(frame)
        early = self.working.start_ns is None and frame.phase in _BEFORE
        (self.before if early else self.working).frame(frame)
        self.times.frame(frame)
        self.sampler.frame(frame)
        self.uploads.frame(frame)

    def passed(self, p: Pass) -> None:
        """See a pass whose phase is final."""
        super().passed(p)
        self.boundaries.add(p)
        self.sampler.passed(p)

    def finish(self) -> None:
        """No more frames."""
        super().finish()
        self.sampler.finish()

    @cached_property
    def whole(self) -> Timeline:
        """Timeline of everything, once it has been seen."""
        both = Timeline()
        both.take(self.before)
        both.take(self.working)
        return both

    @property
    def floor_bytes(self) -> int | None:
        """The textbook's bytes per token, from the capture itself; None without a pass."""
        count, widths = self.boundaries.count, self.boundaries.widths
        if count is None or not widths:
            return None
        return _F16 * widths.most_common(1)[0][0] * count


@dataclass(slots=True)
class RunReport:
    """One run as a page shows it.

    Attributes:
        analysis, facts, findings: as `rpcwire diagnose` has them. evidence: gathered beside.
        speculation: the account of drafts, None without.
    """

    analysis: Analysis
    facts: Facts
    findings: list[Finding]
    evidence: ReportEvidence
    speculation: Speculation | None

    @property
    def floor_bytes(self) -> int | None:
        """Bytes per token of the textbook: by the model's file if given, else by the capture."""
        model = self.analysis.model
        if model is not None and model.floor_bytes_per_token is not None:
            return model.floor_bytes_per_token
        return self.evidence.floor_bytes


def gather(
    paths: Sources, *, gguf: str | Path | None = None, **options: Unpack[ReadOptions]
) -> RunReport:
    """Read a run for a page; arguments and errors are those of `rpcwire.analyze`."""
    evidence = ReportEvidence()
    analysis, facts = accounted(paths, gguf=gguf, evidence=evidence, **options)
    findings = find(facts)
    analysis.findings = [finding.to_dict() for finding in findings]
    return RunReport(analysis, facts, findings, evidence, speculation(facts))

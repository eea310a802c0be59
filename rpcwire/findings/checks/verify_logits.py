"""Logits of every verified row.

A verify pass asks for the result of each row, so d drafts bring d + 1 times the vocabulary in F32
down to the client, whether the drafts are kept or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "verify-logits"
_HEADER = 8


def find(facts: Facts) -> Finding | None:
    """The finding, if logits of verify passes crossed the link."""
    cell = facts.tallies.sum(phases=("verify",), roles=("logits",))
    verify = facts.analysis.phases["verify"]
    if not cell.down or not verify.rows or not verify.passes:
        return None
    # Of each answer 8 bytes are its size.
    row = max(0.0, cell.down - _HEADER * cell.frames / 2) / verify.rows
    # A token without speculation needs one row; what is beyond one row per token is the cause.
    tokens = facts.accepted + facts.rounds
    extra = max(0.0, cell.down - row * tokens)
    return facts.finding(
        ID,
        f"each round reads the logits of {verify.rows / verify.passes:.1f} rows, "
        f"{size(row * verify.rows / verify.passes)}; {size(facts.per_token(extra))} a token for "
        "drafts that were not kept",
        "Let the output layer be on the client: local device last (-dev RPC0,CUDA0) or -ot "
        "'^output\\.weight=CPU'; hidden states cross instead. Or draft less (--spec-draft-n-max).",
        figures={
            "bytes": cell.down,
            "rows": verify.rows,
            "rounds": verify.passes,
            "bytes_per_row": row,
            "vocabulary": round(row / 4),
        },
        frames=cell.numbers,
        total_bytes=extra,
    )

"""The output layer on a worker: logits cross for every row.

One row of logits is vocabulary x 4 bytes, 0.6 to 1 MB for today's models, where the hidden state
that the output layer starts from is some tens of kB. llama.cpp puts the output layer on the last
device, and RPC devices come first unless -dev says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "remote-output-layer"
_HEADER = 8


def find(facts: Facts) -> Finding | None:
    """The finding, if logits crossed the link while tokens were generated."""
    target = facts.tallies.sum(phases=("decode", "verify"), roles=("logits",))
    logits = facts.tallies.sum(roles=("logits",), moments=(TOKENS,))
    rows = sum(facts.analysis.phases[p].rows for p in ("decode", "verify"))
    if not target.down or not rows:
        return None
    hidden = _hidden_bytes(facts, rows)
    extra = max(0.0, logits.down - hidden * rows)
    # Of each answer 8 bytes are its size.
    row = max(0.0, target.down - _HEADER * target.frames / 2) / rows
    return facts.finding(
        ID,
        f"the output layer is on a worker: {size(row)} of logits cross for each row",
        "Let the client's own device be the last one, which gets the output layer: -dev RPC0,CUDA0 "
        "(llama.cpp puts RPC devices first). Without a local GPU: -ot '^output\\.weight=CPU', if "
        "the CPU reads that matrix faster than the link moves the logits.",
        figures={
            "bytes": logits.down,
            "rows": rows,
            "bytes_per_row": row,
            "vocabulary": round(row / 4),
            "hidden_state_bytes_per_row": hidden,
            "bytes_per_token": facts.per_token(logits.down),
        },
        frames=target.numbers,
        total_bytes=extra,
    )


def _hidden_bytes(facts: Facts, rows: int) -> float:
    """What would cross instead: a hidden state in F32, as large as the one that enters."""
    enters = facts.tallies.sum(
        phases=("decode", "verify"), roles=("embedding_in", "hidden_in"), commands=("SET_TENSOR",)
    )
    workers = max(1, len(facts.evidence.places.servers))
    return ratio(enters.up, rows * workers)

"""An attention mask that grows with the context.

The mask is an input too: cells of the KV cache in use (rounded up to 256) x rows of the batch, two
bytes each in F16, four in F32, for every pass and device. With drafts it has more rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.pricing import WARNING_SHARE
from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "mask-growth"
#: Cells whose mask no longer fits into a packet (two bytes each, 1,448 a packet).
_CELLS = 1024
#: Where it grew meanwhile: cells at which it did so once (steps of 256), and its part of the bytes.
_SOME_CELLS, _SHARE = 512, WARNING_SHARE
#: Bytes a cell, row and worker from which there are rows that no token needs: builds of 2025 pad
#: masks to 64 rows of two or four bytes; two masks of F32 (sliding windows) are eight.
_PADDED = 32.0
_FAR = 32768


def find(facts: Facts) -> Finding | None:
    """The finding, if masks grew while tokens were generated, or are long."""
    cell = facts.tallies.sum(roles=("kv_mask",), moments=(TOKENS,))
    places = facts.evidence.places
    if not cell.up or not places.kv_max or not places.passes:
        return None
    share = ratio(cell.up, facts.generation.bytes)
    grew = places.kv_max > places.kv_min
    if not (places.kv_max >= _CELLS or (grew and places.kv_max >= _SOME_CELLS and share >= _SHARE)):
        return None
    # Headers do not grow; what does is proportional to the cells.
    per_token = facts.per_token(cell.up)
    mean = (places.kv_max + places.kv_min) / 2
    far = per_token * _FAR / mean
    rows = sum(facts.analysis.phases[p].rows for p in ("decode", "verify", "draft"))
    padded = cell.up >= _PADDED * mean * max(1, rows) * max(1, len(places.servers))
    update = "Update llama.cpp: this build pads masks to 64 rows, current ones do not. "
    return facts.finding(
        ID,
        f"attention masks are {size(per_token)} a token at {places.kv_max:,} cells and grow with "
        f"the context: about {size(far)} at {_FAR:,}",
        (update if padded else "")
        + "Turn flash attention on (-fa on: F16 masks in current builds), give each slot its own "
        "stream (--no-kv-unified), shorten the context, and draft less (--spec-draft-n-max): the "
        "mask has a row for each draft.",
        figures={
            "bytes": cell.up,
            "least_cells": places.kv_min,
            "most_cells": places.kv_max,
            "rows": places.mask_rows,
            "padded": padded,
            "share_of_generation_bytes": share,
            "bytes_per_token_at_32768_cells": far,
        },
        frames=cell.numbers,
        total_bytes=cell.up,
        confidence="high" if grew else "medium",
    )

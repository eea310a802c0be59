"""Rotation matrices uploaded at every step.

With a quantized KV cache recent builds rotate keys and values before they store them. The matrices
are constants, but they are inputs of the graph, so every step of every context uploads them again:
278,528 bytes a step and device for heads of 256, target, catch-up and draft passes alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "kv-rotation"


def find(facts: Facts) -> Finding | None:
    """The finding, if rotation matrices were uploaded."""
    cell = facts.tallies.sum(roles=("kv_rotation",), moments=(TOKENS,))
    if not cell.bytes:
        return None
    whole = facts.generation.bytes
    return facts.finding(
        ID,
        f"the quantized KV cache makes {size(facts.per_token(cell.bytes))} of constant rotation "
        f"matrices cross per token ({ratio(cell.bytes, whole):.0%} of its bytes)",
        "Use an F16 cache (-ctk f16 -ctv f16) if it fits, or set LLAMA_ATTN_ROT_DISABLE=1 for "
        "llama-server (the cache is then quantized without rotation, as in older builds, at some "
        "loss of quality).",
        figures={
            "bytes": cell.bytes,
            "uploads": cell.frames,
            "bytes_per_upload": ratio(cell.bytes, cell.frames),
            "share_of_generation_bytes": ratio(cell.bytes, whole),
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
    )

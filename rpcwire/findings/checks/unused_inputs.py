"""Inputs that are uploaded although nothing computed reads them.

Recent builds send the first device three tensors of the embeddings' size where one is read: the
others, and an index tensor, feed nodes that are not computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.gather.tallies import TOKENS
from rpcwire.findings.text import ratio, size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "unused-inputs"


def find(facts: Facts) -> Finding | None:
    """The finding, if there were such uploads while tokens were generated."""
    cell = facts.tallies.sum(roles=("unused_input",), moments=(TOKENS,))
    if not cell.bytes:
        return None
    prompt = facts.tallies.sum(roles=("unused_input",), phases=("prefill",))
    return facts.finding(
        ID,
        f"{size(facts.per_token(cell.bytes))} a token are uploaded and never read",
        "No flag avoids it today. It matters for long prompts on slow links, where it triples what "
        "enters: let the first layers be on the client (local device first), or use a build "
        "without mixed embeddings (before July 2026).",
        figures={
            "bytes": cell.bytes,
            "uploads": cell.frames,
            "bytes_in_prefill": prompt.bytes,
            "share_of_generation_bytes": ratio(cell.bytes, facts.generation.bytes),
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
    )

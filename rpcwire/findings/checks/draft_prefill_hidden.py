"""Hidden states of the prompt, fetched for the draft head.

An MTP head needs the target's last hidden state of every token, the prompt's too: each prefill
pass reads them all and sends them back for the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.finding import PROMPT_TOKEN
from rpcwire.findings.text import size

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "draft-prefill-hidden"


def find(facts: Facts) -> Finding | None:
    """The finding, if hidden states moved for the draft head during prefill."""
    cell = facts.tallies.sum(phases=("prefill",), roles=("draft_hidden",))
    if not cell.bytes or not facts.prompt_tokens:
        return None
    return facts.finding(
        ID,
        f"prefill moves {size(cell.bytes / facts.prompt_tokens)} of hidden states per prompt token "
        "between worker and client for the draft head",
        "Let the last layers and the head be on the same side: local device last (-dev RPC0,CUDA0) "
        "keeps both on the client. For long prompts with short answers, run without --spec-type.",
        figures={
            "bytes_down": cell.down,
            "bytes_up": cell.up,
            "prompt_tokens": facts.prompt_tokens,
            "bytes_per_prompt_token": cell.bytes / facts.prompt_tokens,
        },
        frames=cell.numbers,
        total_bytes=cell.bytes,
        trips=cell.trips,
        per=PROMPT_TOKEN,
    )

"""Drafts that are rejected more often than pays on this link.

A round costs more than a plain token; it pays when it returns enough tokens. Acceptance depends on
the text (code keeps more drafts than prose), not on the configuration, so a low figure is not a
regression by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.speculation import speculation

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "low-acceptance"
#: Acceptance below which a draft head mostly works for nothing, whatever the link.
_LOW = 0.3
_FEW = 3


def find(facts: Facts) -> Finding | None:
    """The finding, if acceptance lies below break-even, or is low in any case."""
    if facts.rounds < _FEW or not facts.drafted:
        return None
    acceptance = facts.accepted / facts.drafted
    account = speculation(facts)
    even = account.break_even_acceptance if account is not None else _LOW
    if acceptance >= min(1.0, even) and acceptance >= _LOW:
        return None
    if account is not None and account.speedup >= 1:
        return None
    lost = 0.0
    if account is not None:
        lost = max(0.0, account.round_ms - account.plain_ms * account.tokens_per_round)
        # No more than the rejected drafts would have been worth: the rest has other causes.
        lost = min(lost * facts.rounds, account.plain_ms * (facts.drafted - facts.accepted))
    needed = f"a round pays from {even:.0%}" if even <= 1 else "a round would not pay if all were"
    return facts.finding(
        ID,
        f"{facts.accepted:,} of {facts.drafted:,} drafts were kept ({acceptance:.0%}); on this "
        f"link {needed}",
        "Draft less where the text is hard to foresee: --spec-draft-n-max 1, --spec-draft-p-min "
        "0.75; or --spec-type none for prose. Lower the cost of a round first (see the other "
        "findings): that lowers the acceptance that is needed.",
        figures={
            "drafted": facts.drafted,
            "accepted": facts.accepted,
            "acceptance": acceptance,
            "break_even_acceptance": even,
            "rounds": facts.rounds,
        },
        frames=facts.tallies.sum(phases=("verify",), commands=_GRAPHS).numbers,
        delay_ms=lost * facts.at_once,
        confidence="high" if account and account.plain_source == "measured" else "medium",
    )


_GRAPHS = ("GRAPH_COMPUTE", "GRAPH_RECOMPUTE")

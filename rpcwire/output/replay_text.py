"""A replayed run in words: what each link would have made of it."""

from __future__ import annotations

from collections.abc import Sequence

from rpcwire.output.predict_parts import (
    LIMITS_WORDS,
    VERDICTS,
    assumption_lines,
    figure,
    link_table,
    short,
    wrap,
)
from rpcwire.predict.prediction import LinkResult
from rpcwire.predict.recorded import Recorded

#: Links up to this number get a sentence each.
SENTENCES = 3


def recorded_text(recorded: Recorded, results: Sequence[LinkResult]) -> str:
    """The report of a replayed run."""
    parts = [wrap(_replayed(recorded, result)) for result in results[:SENTENCES]]
    parts.append("\n".join(link_table(results)))
    lines = [f"What crossed per token ({recorded.token.round_trips:.3g} round trips):"]
    lines += [f"  {role:<18}{size:>14,.0f}" for role, size in recorded.roles if size >= 0.5]
    lines.append(f"  {'sum':<18}{recorded.token.up + recorded.token.down:>14,.0f}")
    parts.append("\n".join(lines))
    parts.append("\n".join(assumption_lines(recorded.assumptions())))
    return "\n\n".join(parts) + "\n"


def _replayed(recorded: Recorded, result: LinkResult) -> str:
    title, net = result.link.title, result.network_ms
    if result.total_ms is None or result.tokens_per_s is None:
        return (
            f"Unknown whether {title} is enough: the network would take {figure(net)} ms a token; "
            "how long the machines take cannot be told from this capture."
        )
    was = "" if recorded.token.ms is None else f", recorded: {figure(recorded.token.ms)} ms"
    return (
        f"{title} {VERDICTS[result.verdict]}: {short(net)} of {figure(result.total_ms)} ms per "
        f"token would be the network ({figure(result.tokens_per_s[1])} tokens/s{was}). "
        f"The most of it is {LIMITS_WORDS.get(result.limited_by, result.limited_by)}."
    )

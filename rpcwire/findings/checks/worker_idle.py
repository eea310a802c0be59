"""A worker that takes no part, or hardly any.

Named with --rpc but without layers (a -ts that is shorter than the list of devices, or -dev), or
with so few that it idles: its memory and bandwidth are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.findings.text import many
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.findings.facts import Facts
    from rpcwire.findings.finding import Finding

ID = "worker-idle"
_FEW = 5


def find(facts: Facts) -> Finding | None:
    """The finding, if passes were computed, but not by all workers."""
    places = facts.evidence.places
    prefill = facts.analysis.phases["prefill"].passes
    if places.passes < _FEW and not prefill:
        return None
    computing = {endpoint(address) for address in facts.evidence.contacts.computing}
    idle = [w for w in facts.analysis.workers if w.server not in computing]
    if not idle or not computing:
        return None
    names = {w.server for w in idle}
    contacts = facts.evidence.contacts
    frames = [contacts.first[address] for address in contacts.first if endpoint(address) in names]
    return facts.finding(
        ID,
        f"{', '.join(w.server for w in idle)} computed nothing while "
        f"{many(len(computing), 'other worker')} did",
        "Give it layers: -ts needs a figure for every device (missing ones count as 0), and -dev "
        "must name it. Or leave it out of --rpc.",
        figures={
            "idle": [w.server for w in idle],
            "computing": sorted(computing),
        },
        frames=frames,
    )

"""Why is it slow? Causes, each proved by frames and priced per token.

`Evidence` gathers while a capture is read, `Facts` joins that with the accounts, and `find` asks
every check. Costs of findings may overlap: a draft's round trips are part of a slow link's.
"""

from rpcwire.findings.evidence import Evidence
from rpcwire.findings.facts import Facts
from rpcwire.findings.finding import SEVERITIES, Cost, Finding, rank, worst
from rpcwire.findings.pricing import PricedLink, stated_link
from rpcwire.findings.registry import all_checks, find

__all__ = [
    "SEVERITIES",
    "Cost",
    "Evidence",
    "Facts",
    "Finding",
    "PricedLink",
    "all_checks",
    "find",
    "rank",
    "stated_link",
    "worst",
]

"""--link, --rtt and --bandwidth: the link that costs are priced on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rpcwire.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def pricing(command: F) -> F:
    """The options; the command gets `link`, `rtt` and `bandwidth` for `priced_on`."""
    for option in (
        click.option("--bandwidth", metavar="RATE", help="With --rtt: its rate (940mbit, 1gbit)."),
        click.option("--rtt", metavar="TIME", help="Price on a link of this round-trip time."),
        click.option(
            "--link", metavar="NAME",
            help="Price on this link (1gbe, wifi6, 1gbe+ssh, ...) instead of the recorded one.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def priced_on(link: str | None, rtt: str | None, bandwidth: str | None) -> Any:
    """The stated link; None when none of the options was given.

    Raises:
        UsageError: they contradict one another, or name no link.
    """
    from rpcwire.findings import stated_link
    from rpcwire.links.catalogue import find_link, given_link

    if link is not None and rtt is not None:
        raise UsageError("give --link or --rtt, not both")
    if bandwidth is not None and rtt is None:
        raise UsageError("--bandwidth goes with --rtt")
    if link is None and rtt is None:
        return None
    found = find_link(link) if link is not None else given_link(str(rtt), bandwidth)
    name = found.title if link is not None else "a link"
    return stated_link(name, found.rtt_ms[1], found.mbit_s[1])

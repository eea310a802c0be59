"""Options that several commands share, each defined once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from rpcwire.errors import UsageError
from rpcwire.window import Moment

F = TypeVar("F", bound=Callable[..., Any])

_RANGE = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$")
_LAST_PORT = 65535

#: The name of a file, which shells complete; opening it says what is wrong with it.
FILE = click.Path(readable=False)


class Ports(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """A port, a range, or a list of both: 50052, 50052-50060, 50052,50060."""

    name = "PORTS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[int]:
        """The ports that the text names."""
        if isinstance(value, frozenset):
            return value
        found: set[int] = set()
        for part in str(value).split(","):
            match = _RANGE.match(part.strip())
            low = int(match[1]) if match else 0
            high = int(match[2] or low) if match else 0
            if match is None or not 0 < low <= high <= _LAST_PORT:
                self.fail(f"{value!r} is no port, range (50052-50060) or list of them", param, ctx)
            found.update(range(low, high + 1))
        return frozenset(found)


class When(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """A moment, see rpcwire.window.Moment."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, known to name a moment."""
        try:
            Moment(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def _all_ports(
    ctx: click.Context, param: click.Parameter, value: tuple[frozenset[int], ...]
) -> frozenset[int] | None:
    return frozenset().union(*value) if value else None


def captures(command: F) -> F:
    """CAPTURE…, one or more."""
    return click.argument("captures", metavar="CAPTURE...", type=FILE, nargs=-1, required=True)(
        command
    )


def ports(command: F) -> F:
    """-p."""
    return click.option(
        "-p", "--port", "ports", type=Ports(), multiple=True, callback=_all_ports,
        help="Only these ports (50052, 50052-50060, 50052,50060); may repeat. Without it RPC is "
        "found on any port.",
    )(command)  # fmt: skip


def narrowing(command: F) -> F:
    """-p, --since, --until and --request."""
    for option in (
        click.option(
            "--request", type=click.IntRange(min=1), metavar="N",
            help="Only while the N-th request ran.",
        ),
        click.option("--until", type=When(), help="Only what began up to then."),
        click.option(
            "--since", type=When(),
            help="Only what began from then on: seconds from the start, a clock time (14:03:05) "
            "or a date and time.",
        ),
    ):  # fmt: skip
        command = option(command)
    return ports(command)


def as_json(command: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)

"""`rpcwire record`: capture around a run."""

from __future__ import annotations

import re
from typing import Any

import click

from rpcwire.cli.options import FILE, Ports
from rpcwire.errors import UsageError

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|min|h)?$")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_RING = re.compile(r"^(\d+(?:\.\d+)?)\s*([kKMG]?)(?:i?B)?[x×*](\d+)$")
_BYTES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """30s, 5m, 1h, or seconds."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        match = _DURATION.match(str(value).strip())
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is no duration; write 30s, 5m or 1h", param, ctx)
        return float(match[1]) * _SECONDS[match[2] or "s"]


class RingSize(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """100MBx10: size of a file, and how many are kept."""

    name = "SIZExN"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Bytes of a file, files kept."""
        match = _RING.match(str(value).strip())
        size = float(match[1]) * _BYTES[match[2].replace("K", "k")] if match else 0
        count = int(match[3]) if match else 0
        if size < 1 or count < 1:
            self.fail(f"{value!r} is no SIZExN; write 100MBx10", param, ctx)
        return int(size), count


@click.command(
    "record",
    short_help="capture around a run",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option(
    "-o", "--output", type=FILE, metavar="OUT", required=True, help="The pcapng file to write."
)
@click.option(
    "-i",
    "--interface",
    "interfaces",
    multiple=True,
    metavar="IF",
    help="Where to capture; repeatable. Default: where COMMAND's --rpc leads, else loopback.",
)
@click.option(
    "-p",
    "--port",
    "ports",
    multiple=True,
    type=Ports(),
    help="Only this port, range or list; repeatable. Default: those in COMMAND's --rpc.",
)
@click.option("--duration", type=Duration(), help="Stop after this time (30s, 5m).")
@click.option(
    "--slim/--full", default=True, help="Leave tensor contents out (default), or keep every byte."
)
@click.option(
    "--ring",
    type=RingSize(),
    metavar="SIZExN",
    help="Keep the last N files of SIZE each (100MBx10).",
)
@click.option(
    "--buffer",
    "buffer_mib",
    type=click.IntRange(1, 2047),
    metavar="MIB",
    help="Capture buffer of the kernel in MiB (default 256).",
)
@click.argument("command_line", metavar="[-- COMMAND ARGS...]", nargs=-1)
def command(  # noqa: PLR0917 - one an option
    output: str,
    interfaces: tuple[str, ...],
    ports: tuple[frozenset[int], ...],
    duration: float | None,
    slim: bool,
    ring: tuple[int, int] | None,
    buffer_mib: int | None,
    command_line: tuple[str, ...],
) -> int:
    """Capture a run of llama.cpp over RPC to a file that analyze reads.

    With COMMAND the capture is on before it starts and ends after it; COMMAND has the terminal,
    and its exit status is passed on. Without, it goes on until Ctrl-C or for --duration.
    """
    from pathlib import Path

    from rpcwire.cli.liveline import LiveLine
    from rpcwire.cli.summary import summary
    from rpcwire.record.about import own_command
    from rpcwire.record.capturers import BUFFER_MIB
    from rpcwire.record.compress import plain_only
    from rpcwire.record.interfaces import capture_filter, interfaces_to, rpc_endpoints
    from rpcwire.record.plan import Plan
    from rpcwire.record.recorder import Recorder

    if duration is not None and command_line:
        raise UsageError("--duration and COMMAND exclude each other: COMMAND's end is the end")
    plain_only(output)
    endpoints = rpc_endpoints(command_line)
    chosen = frozenset().union(*ports) if ports else {e.port for e in endpoints}
    where = tuple(interfaces or interfaces_to(endpoints))
    plan = Plan(
        path=Path(output),
        interfaces=where,
        filter=capture_filter(_ranges(sorted(chosen))),
        full=not slim,
        duration_s=duration,
        command=command_line,
        ring=ring,
        buffer_mib=buffer_mib or BUFFER_MIB,
        argv=tuple(own_command()),
    )
    with LiveLine(quiet=bool(command_line)) as live:

        def on(name: str) -> None:
            where = ", ".join(plan.interfaces)
            how = "" if command_line or duration else "; Ctrl-C ends"
            live.say(f"{name} captures on {where} ({plan.filter}){how}")

        result = Recorder(plan, say=live.say, beat=live.show, on=on).run()
    summary(*result.files)
    for line in _losses(result, ", ".join(where), plan.filter):
        click.echo(f"rpcwire: {line}", err=True)
    if result.status:
        return result.status
    return 2 if result.error else 0


def _losses(result: Any, where: str, filter: str) -> list[str]:
    """What was lost, in words."""
    from rpcwire.output.units import bytes_text, count_text

    lines = []
    if not result.packets and not result.error:
        lines.append(f"no packet ({filter}) passed {where}; -i any captures on all interfaces")
    if result.lost:
        lines.append(
            f"{count_text(result.lost)} packets were dropped for want of room in the capture "
            "buffer; a larger --buffer, or 'rpcwire relay', loses fewer or none"
        )
    if result.missing:
        lines.append(
            f"{bytes_text(result.missing)} of RPC traffic were not captured; analyze counts them "
            "by what sequence numbers prove"
        )
    if result.spilled:
        lines.append(f"{bytes_text(result.spilled)} had to wait on disk for the decoder")
    if result.error:
        lines.append(result.error)
    return lines


def _ranges(ports: list[int]) -> list[tuple[int, int]]:
    """Consecutive ports as (first, last)."""
    out: list[tuple[int, int]] = []
    for port in ports:
        if out and out[-1][1] == port - 1:
            out[-1] = out[-1][0], port
        else:
            out.append((port, port))
    return out

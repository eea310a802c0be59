"""`rpcwire relay`: a recording TCP relay that needs no rights."""

from __future__ import annotations

import click

from rpcwire.cli.options import FILE


@click.command("relay", short_help="record without capture rights, as a TCP relay")
@click.argument("listen", metavar="LISTEN")
@click.argument("target", metavar="TARGET")
@click.option("-o", "--output", type=FILE, metavar="OUT", help="Record to this pcapng file.")
@click.option(
    "--slim/--full",
    default=True,
    help="Leave tensor contents out (default), or keep every byte.",
)
@click.option("--allow-remote", is_flag=True, help="Listen where other machines can connect, too.")
def command(listen: str, target: str, output: str | None, slim: bool, allow_remote: bool) -> None:
    """Pass connections to LISTEN on to the worker at TARGET, and record them.

    Give llama-server LISTEN instead of the worker's address, for example
    `rpcwire relay 127.0.0.1:50053 gpu-worker:50052 -o run.pcapng` and `--rpc 127.0.0.1:50053`.
    Ctrl-C ends it.
    """
    from pathlib import Path

    from rpcwire.cli.liveline import LiveLine
    from rpcwire.cli.summary import summary
    from rpcwire.errors import CaptureError
    from rpcwire.record.about import own_command
    from rpcwire.record.addresses import HostPort, parse_endpoint
    from rpcwire.record.compress import plain_only
    from rpcwire.record.relaying import relay

    if output is not None:
        plain_only(output)
    listens, worker = parse_endpoint(listen), parse_endpoint(target)
    path = Path(output) if output else None

    def ready(address: HostPort) -> None:
        click.echo(f"relaying {address} to {worker}; give --rpc {address}; Ctrl-C ends", err=True)

    with LiveLine() as live:
        outcome = relay(
            listens,
            worker,
            path,
            argv=own_command(),
            full=not slim,
            allow_remote=allow_remote,
            ready=ready,
            say=live.say,
            beat=live.show,
        )
    if path is not None:
        summary(path)
    if outcome.error:
        raise CaptureError(outcome.error)

"""`rpcwire probe`: a worker as seen from here."""

from __future__ import annotations

import json

import click


@click.command("probe", short_help="measure a worker's link and memory")
@click.argument("endpoint", metavar="HOST:PORT")
@click.option(
    "-n",
    "--rounds",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Round trips to measure (20 s at most).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.05, 600),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Longest wait for an answer; then the worker counts as busy.",
)
@click.option(
    "--throughput",
    is_flag=True,
    help="Also fill and read a scratch buffer of 32 MiB, 3 s each way at most.",
)
@click.option(
    "--llama-server",
    metavar="PATH",
    help="Ask this llama-server whether it accepts the worker's version.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    endpoint: str,
    *,
    rounds: int,
    timeout: float,
    throughput: bool,
    llama_server: str | None,
    as_json: bool,
) -> None:
    """Ask a worker for its version, devices and memory, and measure round trips to it.

    A worker serves one client at a time: one that is busy is left alone after --timeout. The
    figures feed predict (--rtt, --bandwidth).
    """
    from rpcwire.output.probe_text import probe_text
    from rpcwire.record.addresses import parse_endpoint
    from rpcwire.record.probe import probe

    found = probe(
        parse_endpoint(endpoint),
        rounds=rounds,
        timeout_s=timeout,
        throughput=throughput,
        llama_server=llama_server,
    )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
        return
    click.echo(probe_text(found))
    for line in found.warnings:
        click.echo(f"rpcwire: {line}", err=True)

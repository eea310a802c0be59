"""`rpcwire slim`: a capture without tensor contents."""

from __future__ import annotations

import click

from rpcwire.cli.options import FILE


@click.command("slim")
@click.argument("source", type=FILE, metavar="IN")
@click.argument("target", type=FILE, metavar="OUT")
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace hardware and IP addresses (loopback stays), drop comments and names.",
)
def command(source: str, target: str, anonymize: bool) -> None:
    """Drop tensor contents, keep every header: small, and safe to post.

    Weights, embeddings, activations, logits and state are left out; lengths, times, tensor
    descriptors, graphs, positions and masks stay, so that analyze reads the same books. IN and OUT
    may be "-". The result is a pcapng file, compressed where OUT ends in .gz or .zst.
    """
    from pathlib import Path

    from rpcwire.cli.progress import ProgressLine
    from rpcwire.output.units import bytes_text
    from rpcwire.record.slimming import slim

    with ProgressLine() as progress:
        done = slim(source, target, anonymize=anonymize, progress=progress)
    health = done.core.health
    size = bytes_text(done.written if target == "-" else Path(target).stat().st_size)
    click.echo(f"{target}: {size} of {bytes_text(health.captured_bytes)} of packets", err=True)
    for note in health.notes:
        click.echo(f"note: {note}", err=True)

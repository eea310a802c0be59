"""`rpcwire doctor`: what works here, and what is missing."""

from __future__ import annotations

import click

_MARKS = {True: "ok  ", False: "--  "}


@click.command("doctor", short_help="say what can be captured here, and what is missing")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(as_json: bool) -> None:
    """Check versions, capture programs and rights, and optional parts.

    Each thing that is missing comes with the one line that fixes it. Nothing is sent anywhere,
    and nothing is changed.
    """
    import json
    from dataclasses import asdict

    from rpcwire.record.doctor import examine

    checks = examine()
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2))
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(f"{_MARKS[check.good]}{check.name:<{width}}  {check.found}")
        if check.fix:
            click.echo(f"    {'':<{width}}  fix: {check.fix}")

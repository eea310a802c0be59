"""`rpcwire completion`: what a shell needs to complete rpcwire's words."""

from __future__ import annotations

import click

from rpcwire.cli import COMPLETION

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The completion script of a shell, one of SHELLS."""
    from click.shell_completion import get_completion_class

    from rpcwire.cli.run import group

    found = get_completion_class(shell)
    assert found is not None
    made = found(group, {}, "rpcwire", COMPLETION)
    return made.source_template % made.source_vars()


@click.command("completion", short_help="print the completion script of a shell")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script with which SHELL completes rpcwire's commands and options.

    For bash, write it to ~/.local/share/bash-completion/completions/rpcwire; for zsh, to
    "${fpath[1]}/_rpcwire"; for fish, to ~/.config/fish/completions/rpcwire.fish.
    """
    click.echo(script(shell), nl=False)

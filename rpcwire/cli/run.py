"""Finds the command, runs it, and turns whatever happens into a line and an exit status."""

from __future__ import annotations

import difflib
import gc
import os
import sys
from importlib import import_module

import click

from rpcwire import __version__
from rpcwire.cli.commands import COMMANDS, overview
from rpcwire.errors import RpcwireError

DONE, BAD = 0, 2
#: Requests and responses refer to each other, so they need the collector, but not so often.
_COLLECT_EVERY = 50_000
_INTERRUPTED = 130
DEBUG = "RPCWIRE_DEBUG"


class Group(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names, or an error that says what was meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean '{close[0]}'?" if close else "'rpcwire --help' lists them"
            raise click.UsageError(f"there is no command '{args[0]}': {hint}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """The same text as the quick way gives."""
        return overview()


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rpcwire", message="%(prog)s %(version)s")
def group() -> None:
    """Where the bytes and round trips of llama.cpp over RPC go."""


def run(arguments: list[str]) -> int:
    """Run a command line.

    Returns:
        The exit status: 0 done, 1 a check that was asked for failed, 2 bad input or usage.
    """
    gc.set_threshold(_COLLECT_EVERY)
    if sys.stdout is None:
        _say("standard output is closed: results cannot be written")
        return BAD
    try:
        status = group.main(arguments, prog_name="rpcwire", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit:  # click ends the process where a pipe is closed
        return _hang_up()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return _INTERRUPTED
    except OSError as error:  # reading has errors of its own; this is the output
        return unwritten(error)
    except Exception as error:
        if os.environ.get(DEBUG) and not isinstance(error, click.ClickException):
            raise
        _say(_sentence(error))
        return BAD
    return status if isinstance(status, int) else DONE


def _sentence(error: Exception) -> str:
    """One line that says what is wrong and what to do."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message().rstrip('.')} (see '{error.ctx.command_path} --help')"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, RpcwireError):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory: narrow the capture with --until or -p"
    return (
        f"an error in rpcwire itself: {type(error).__name__}: {error} "
        f"(please report it, with what {DEBUG}=1 prints)"
    )


def _say(text: str) -> None:
    print("rpcwire:", " ".join(text.split()), file=sys.stderr)


def unwritten(error: OSError) -> int:
    """Standard output takes no more: the exit status, after a line that says why."""
    _hang_up()
    if isinstance(error, BrokenPipeError):  # `head` has enough
        return DONE
    _say(f"cannot write the output: {error.strerror or error}; make room or write elsewhere")
    return BAD


def _hang_up() -> int:
    """Whoever read standard output has enough; nothing more must be written to it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE

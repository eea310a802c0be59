"""The command line: flags in, words out. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys

from rpcwire.cli.commands import overview

_HELP = ("--help", "-h", "help")
#: Set by the scripts of `rpcwire completion`, which call `rpcwire` without arguments.
COMPLETION = "_RPCWIRE_COMPLETE"


def main(arguments: list[str] | None = None) -> None:
    """Run `rpcwire`; ends the process with its exit status.

    Args:
        arguments: of the command line, without the program's name; default `sys.argv`.
    """
    given = sys.argv[1:] if arguments is None else arguments
    asks = len(given) == 0 or (len(given) == 1 and given[0] in _HELP)
    if asks and COMPLETION not in os.environ:
        try:  # answered without even the parser: it must be quick
            print(overview(), flush=True)
        except OSError as error:
            from rpcwire.cli.run import unwritten

            sys.exit(unwritten(error))
        return
    from rpcwire.cli.run import run

    sys.exit(run(given))

"""What is recorded: starts llama-server, asks for completions, ends it. Run as a COMMAND.

`python -m tests.lab.drive OUT.json [--in NAMESPACE] TOKENS[,TOKENS] -- LLAMA-SERVER ARGS...`; OUT
gets what llama-server said of each completion.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from .rig import complete, wait_until_ready

PROMPT = "the quick brown fox jumps over the lazy dog while seven wizards pack jugs near rivers "


def main(arguments: list[str]) -> int:
    """Drive one llama-server; its exit status is 0 when it ended in order."""
    cut = arguments.index("--")
    out, tokens, command = arguments[0], arguments[1], arguments[cut + 1 :]
    port = int(command[command.index("--port") + 1])
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        said = [
            complete(port, PROMPT * (2 * k + 1), int(n)) for k, n in enumerate(tokens.split(","))
        ]
        with open(out, "w") as file:
            json.dump(said, file)
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(60)
    return 0 if status in (0, -signal.SIGINT) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The commands: their modules, loaded only when one is used, and what they do in a line."""

from __future__ import annotations

#: name -> (module that has a click command `command`, what it does).
COMMANDS: dict[str, tuple[str, str]] = {
    "analyze": ("rpcwire.cli.analyze", "account for bytes and round trips of a capture"),
    "frames": ("rpcwire.cli.frames", "list the requests and responses of a capture"),
    "predict": (
        "rpcwire.cli.predict",
        "what a split will cost on a link, before there is any",
    ),
    "diagnose": ("rpcwire.cli.diagnose", "name what makes a run slow, prove and price it"),
    "compare": ("rpcwire.cli.compare", "the same job with and without: what grew, and why"),
    "report": ("rpcwire.cli.report", "one self-contained page with figures"),
    "record": ("rpcwire.cli.record", "capture around a run"),
    "relay": ("rpcwire.cli.relay", "record without capture rights, as a TCP relay"),
    "slim": ("rpcwire.cli.slim", "drop tensor contents, keep every header"),
    "probe": ("rpcwire.cli.probe", "measure a worker's link and memory"),
    "wireshark": ("rpcwire.cli.wireshark", "print or install the Wireshark dissector"),
    "doctor": ("rpcwire.cli.doctor", "say what can be captured here, and what is missing"),
    "completion": ("rpcwire.cli.completion", "print the completion script of a shell"),
}

_OVERVIEW = """\
Usage: rpcwire COMMAND [ARGS]...

Where the bytes and round trips of llama.cpp over RPC go.

Commands:
{commands}

Options:
  --version  Show the version and exit.
  -h, --help Show this message and exit; 'rpcwire COMMAND --help' for a command.

CAPTURE is a pcap or pcapng file (also .gz, .zst), or - for standard input:
  tcpdump -i lo -w - tcp port 50052 | rpcwire analyze -"""


def overview() -> str:
    """What `rpcwire --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return _OVERVIEW.format(commands="\n".join(lines))

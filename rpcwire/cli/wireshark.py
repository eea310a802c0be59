"""`rpcwire wireshark`: the Wireshark dissector, printed or installed."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("wireshark", short_help="print or install the Wireshark dissector")
@click.option("--install", is_flag=True, help="Write it where Wireshark and tshark look for it.")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Install into this folder instead of the one that `tshark -G folders` names.",
)
def command(install: bool, folder: str | None) -> None:
    """Print the Lua dissector of ggml RPC, or install it.

    Wireshark then shows commands, tensors, graphs, response times and what was left unanswered,
    on port 50052 and wherever else it finds the protocol. To try it without installing:
    `rpcwire wireshark > ggml_rpc.lua` and `tshark -X lua_script:ggml_rpc.lua -r run.pcap`.
    """
    from rpcwire import __version__
    from rpcwire.errors import UsageError
    from rpcwire.wireshark import FILE_NAME, dissector
    from rpcwire.wireshark.folders import plugin_folder

    text = dissector(__version__)
    if not install and folder is None:
        click.echo(text, nl=False)
        return
    target = (Path(folder) if folder else plugin_folder()) / FILE_NAME
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror}; name another folder with --folder"
        ) from error
    click.echo(f"installed {target}; restart Wireshark, or press Ctrl+Shift+L in it")

"""The Wireshark dissector: Lua text made of the version table and a few parts of fixed code."""

from __future__ import annotations

from importlib.resources import files

from rpcwire.wireshark.tables import tables

FILE_NAME = "ggml_rpc.lua"

#: The fixed parts of the dissector, in the order in which they make one file.
PARTS = ("fields", "dialects", "streams", "pairing", "reader", "show", "register")


def dissector(version: str) -> str:
    """The dissector's whole Lua text.

    Args:
        version: of rpcwire, for the first lines.
    """
    folder = files("rpcwire.wireshark") / "lua"
    parts = {name: (folder / f"{name}.lua").read_text("utf-8") for name in PARTS}
    return "\n".join((_TOP.format(version=version), tables(), *parts.values()))


_TOP = """\
-- ggml RPC (llama.cpp) for Wireshark and tshark, 3.6 and later.
-- Made by rpcwire {version} from its table of protocol versions: `rpcwire wireshark`.
-- Put it into the folder that `tshark -G folders` calls Personal Lua Plugins.
"""

"""Memory bandwidth of devices (data/gpus.toml)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rpcwire.errors import UsageError


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Part of the bandwidth that decoding reaches, and what costs besides: low, mid, high.

    Attributes:
        bandwidth: part reached. layer_us: of each layer. row: of a further row, in plain tokens.
        source: of all of it.
    """

    bandwidth: tuple[float, float, float]
    layer_us: tuple[float, float, float]
    row: tuple[float, float, float]
    source: str


@cache
def _tables() -> tuple[dict[str, tuple[float, str]], Efficiency]:
    source = resources.files("rpcwire.data").joinpath("gpus.toml").read_text("utf-8")
    data = tomllib.loads(source)
    gpus = {name: (float(f["gb_s"]), str(f["source"])) for name, f in data["gpus"].items()}
    e = data["efficiency"]
    return gpus, Efficiency(
        tuple(e["bandwidth"]), tuple(e["layer_us"]), tuple(e["row"]), e["source"]
    )


def efficiency() -> Efficiency:
    """How much of its bandwidth a device turns into tokens."""
    return _tables()[1]


def find_gpu(name: str) -> tuple[str, float, str]:
    """Name in the table, bandwidth in GB/s and its source; "RTX 4060 Ti" finds rtx-4060-ti.

    Raises:
        UsageError: the table has no such device.
    """
    gpus, _ = _tables()
    word = re.sub(r"[\s_]+", "-", name.strip().lower())
    word = word.removeprefix("nvidia-").removeprefix("geforce-").removeprefix("amd-")
    word = word.removeprefix("radeon-").removeprefix("apple-")
    if word not in gpus:
        near = [key for key in gpus if word and (word in key or key in word)]
        hint = f"; did you mean {', '.join(near[:5])}?" if near else ";"
        raise UsageError(f"--gpu {name}: not in the table{hint} use --membw DEV=GB/s instead")
    bandwidth, source = gpus[word]
    return word, bandwidth, source

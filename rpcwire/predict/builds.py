"""Builds of llama.cpp: what differs on the wire besides the protocol version."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rpcwire.errors import UsageError

#: Protocol version of a stream without HELLO.
NONE = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Build:
    """One line of data/builds.toml (the fields are explained there)."""

    name: str
    protocols: tuple[str, ...]
    date: str
    core: str
    recurrent: str
    ffn: str
    mixed_embeddings: bool
    rotation: bool
    mask_flash: int
    mask_plain: int
    mask_rows: int
    cells_flash: int
    cells_plain: int
    output_first: bool
    flash_default: tuple[bool, bool]
    clamp_weights: bool
    experts: str
    early_outputs: tuple[str, ...]
    value_first: bool
    scales_query: bool
    state_checkpoints: bool
    default_slots: int
    draft_catch_up: str
    source: str

    @property
    def casts_mask(self) -> bool:
        """With flash attention the graph itself turns an F32 mask into F16."""
        return self.mask_flash == 4


@cache
def builds() -> dict[str, Build]:
    """All builds, newest first."""
    source = resources.files("rpcwire.data").joinpath("builds.toml").read_text("utf-8")
    found: dict[str, Build] = {}
    for name, fields in tomllib.loads(source).items():
        fields["protocols"] = tuple(fields["protocols"])
        fields["flash_default"] = tuple(fields["flash_default"])
        fields["early_outputs"] = tuple(fields["early_outputs"])
        found[name] = Build(name=name, **fields)
    return found


def parse_protocol(text: str) -> tuple[int, int, int]:
    """Read "7.0", "3.6.1" or "none".

    Raises:
        UsageError: it is neither.
    """
    if text.strip().lower() == "none":
        return NONE
    parts = text.strip().split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--protocol {text!r}: give a version such as 7.0 or 3.6.1, or none")
    numbers = [int(part) for part in parts] + [0, 0]
    return numbers[0], numbers[1], numbers[2]


def protocol_text(protocol: tuple[int, int, int]) -> str:
    """Write a version as users do; the inverse of `parse_protocol`."""
    return "none" if protocol == NONE else ".".join(str(part) for part in protocol)


def build_for(protocol: tuple[int, int, int], name: str | None) -> tuple[Build, bool]:
    """Return the build named, or the one that stands for a protocol, and whether it is a guess.

    It is a guess when no recorded build speaks just this version.

    Raises:
        UsageError: no build has that name.
    """
    if name is not None:
        known = builds()
        for key in (name, name.removeprefix("llama-cpp-python-"), f"b{name}"):
            if key in known:
                return known[key], False
        raise UsageError(f"--build {name}: known builds are {', '.join(known)}")
    if protocol == NONE:
        return builds()["0.3.8"], False
    wanted = f"{protocol[0]}.{protocol[1]}"
    for build in builds().values():
        if wanted in build.protocols:
            return build, build.source != "capture" or build.protocols[0] != wanted
    return min(builds().values(), key=lambda build: _distance(build, protocol)), True


def _distance(build: Build, protocol: tuple[int, int, int]) -> float:
    values = [parse_protocol(text) for text in build.protocols]
    return min((abs(v[0] - protocol[0]) * 10 + abs(v[1] - protocol[1]) for v in values), default=99)

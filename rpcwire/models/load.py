"""One entry for every kind of model that a user may name."""

from __future__ import annotations

from pathlib import Path

from rpcwire.errors import ModelError
from rpcwire.models.config import MAX_CONFIG, read_config
from rpcwire.models.gguf import read_gguf
from rpcwire.models.model import Model
from rpcwire.models.quants import DEFAULT_QUANT


def load_model(name: str, quant: str = DEFAULT_QUANT) -> Model:
    """Read a GGUF file (whole, split or its beginning), a config.json, or an address of either.

    Args:
        name: path or http(s) address.
        quant: quantisation that is assumed for a config.json.

    Raises:
        ModelError: it cannot be read or is no model.
    """
    if name.lower().startswith(("http://", "https://")):
        from rpcwire.models.remote import read_url

        return read_url(name, quant)
    path = Path(name)
    if path.is_dir() and (path / "config.json").is_file():
        path /= "config.json"
    if path.suffix.lower() == ".json":
        try:
            with path.open("rb") as file:
                return read_config(file.read(MAX_CONFIG + 1), quant)
        except OSError as error:
            raise ModelError(f"cannot read {name}: {error.strerror or error}") from error
    return read_gguf(path)

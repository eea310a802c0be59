"""Quantisations by name: what a config.json does not tell."""

from __future__ import annotations

from rpcwire.errors import ModelError

#: `--quant`: bits per weight of the whole file, and the ggml type that stands for its matrices.
#: Averages of published files of 7B to 70B; block types exactly.
QUANTS = {
    "f32": (32.0, 0),
    "f16": (16.0, 1),
    "bf16": (16.0, 30),
    "q8_0": (8.5, 8),
    "q6_k": (6.5625, 14),
    "q5_k_m": (5.69, 13),
    "q4_k_m": (4.85, 12),
    "q4_0": (4.5, 2),
    "iq4_xs": (4.25, 23),
    "mxfp4": (4.25, 39),
    "q3_k_m": (3.91, 11),
    "q2_k": (2.96, 10),
    "iq1_s": (1.56, 19),
}
DEFAULT_QUANT = "q4_k_m"


def parse_quant(text: str) -> tuple[float, int]:
    """Bits a weight and ggml type of a quantisation, or of a number of bits ("4.4").

    Raises:
        ModelError: neither.
    """
    if text.lower() in QUANTS:
        return QUANTS[text.lower()]
    try:
        bits = float(text)
    except ValueError:
        bits = 0.0
    if not 1 <= bits <= 32:
        raise ModelError(f"quantisation {text!r}: bits a weight, or one of {', '.join(QUANTS)}")
    nearest = min(QUANTS.values(), key=lambda entry: abs(entry[0] - bits))
    return bits, nearest[1]

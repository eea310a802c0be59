"""Sizes of the ggml tensor types, by the number that GGUF files and the wire carry.

Source: `enum ggml_type` and `type_traits` of ggml (b11434).
"""

from __future__ import annotations

from rpcwire.errors import ModelError

#: number: (name, elements per block, bytes per block)
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    31: ("Q4_0_4_4", 32, 18),
    32: ("Q4_0_4_8", 32, 18),
    33: ("Q4_0_8_8", 32, 18),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    36: ("IQ4_NL_4_4", 32, 18),
    37: ("IQ4_NL_4_8", 32, 18),
    38: ("IQ4_NL_8_8", 32, 18),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}

#: name in lower case (as llama.cpp's `-ctk` takes it): number
BY_NAME = {name.lower(): number for number, (name, _, _) in TYPES.items()}

#: Types that `ggml_is_quantized` is true for: more than one element to a block.
QUANTIZED = frozenset(number for number, (_, block, _) in TYPES.items() if block > 1)


def row_bytes(type_number: int, elements: int) -> int:
    """Bytes of one row of `elements` elements (`ggml_row_size`).

    Raises:
        ModelError: the type is not known.
    """
    try:
        _, block, size = TYPES[type_number]
    except KeyError:
        raise ModelError(f"tensor type {type_number} is not known; is the file damaged?") from None
    return -(-elements // block) * size

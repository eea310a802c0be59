"""The op numbers of all builds that had RPC: one list and the edits made to it since.

Numbers move whenever an op is added in the middle of enum ggml_op. Source: the history of ggml.h.
"""

from __future__ import annotations

from dataclasses import dataclass

#: enum ggml_op of 2024-05-14, the day of the first RPC backend.
FIRST: tuple[str, ...] = tuple(
    """
    NONE DUP ADD ADD1 ACC SUB MUL DIV SQR SQRT LOG SUM SUM_ROWS MEAN ARGMAX REPEAT REPEAT_BACK
    CONCAT SILU_BACK NORM RMS_NORM RMS_NORM_BACK GROUP_NORM MUL_MAT MUL_MAT_ID OUT_PROD SCALE SET
    CPY CONT RESHAPE VIEW PERMUTE TRANSPOSE GET_ROWS GET_ROWS_BACK DIAG DIAG_MASK_INF
    DIAG_MASK_ZERO SOFT_MAX SOFT_MAX_BACK ROPE ROPE_BACK CLAMP CONV_TRANSPOSE_1D IM2COL
    CONV_TRANSPOSE_2D POOL_1D POOL_2D UPSCALE PAD ARANGE TIMESTEP_EMBEDDING ARGSORT LEAKY_RELU
    FLASH_ATTN FLASH_ATTN_EXT FLASH_FF FLASH_ATTN_BACK SSM_CONV SSM_SCAN WIN_PART WIN_UNPART
    GET_REL_POS ADD_REL_POS UNARY MAP_UNARY MAP_BINARY MAP_CUSTOM1_F32 MAP_CUSTOM2_F32
    MAP_CUSTOM3_F32 MAP_CUSTOM1 MAP_CUSTOM2 MAP_CUSTOM3 CROSS_ENTROPY_LOSS CROSS_ENTROPY_LOSS_BACK
    """.split()  # noqa: SIM905 - one op a line would be 76 lines
)


@dataclass(frozen=True, slots=True)
class Edit:
    """What one change did to the list: `add` follows `after`; `remove` goes.

    Attributes:
        date: of the change in ggml (llama.cpp: up to three weeks earlier).
    """

    date: str
    after: str = ""
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


EDITS: tuple[Edit, ...] = (
    Edit("2024-05-28", remove=("FLASH_ATTN", "FLASH_FF")),
    Edit("2024-08-12", "LOG", ("SIN", "COS")),
    Edit("2024-08-22", "IM2COL", ("IM2COL_BACK",)),
    Edit("2024-08-22", "POOL_2D", ("POOL_2D_BACK",)),
    Edit("2024-09-08", "ADD_REL_POS", ("RWKV_WKV6",)),
    Edit("2024-09-20", "CROSS_ENTROPY_LOSS_BACK", ("OPT_STEP_ADAMW",)),
    Edit("2024-10-03", "ARGMAX", ("COUNT_EQUAL",)),
    Edit("2024-12-03", "PAD", ("PAD_REFLECT_1D",)),
    Edit("2025-01-14", "RWKV_WKV6", ("GATED_LINEAR_ATTN",)),
    Edit("2025-03-27", "GROUP_NORM", ("L2_NORM",)),
    Edit("2025-03-27", "GATED_LINEAR_ATTN", ("RWKV_WKV7",)),
    Edit(
        "2025-04-09",
        "MAP_CUSTOM3",
        ("CUSTOM",),
        ("MAP_UNARY", "MAP_BINARY", "MAP_CUSTOM1_F32", "MAP_CUSTOM2_F32", "MAP_CUSTOM3_F32"),
    ),
    Edit("2025-04-17", "IM2COL_BACK", ("CONV_2D_DW",)),
    Edit("2025-06-18", "PAD_REFLECT_1D", ("ROLL",)),
    Edit("2025-07-01", "GET_ROWS_BACK", ("SET_ROWS",)),
    Edit("2025-07-01", "OPT_STEP_ADAMW", ("GLU",)),
    Edit("2025-07-01", "IM2COL_BACK", ("CONV_2D",)),
    Edit("2025-08-14", "ADD", ("ADD_ID",)),
    Edit("2025-08-14", "OPT_STEP_ADAMW", ("OPT_STEP_SGD",)),
    Edit("2025-09-05", "CONV_2D", ("CONV_3D",)),
    Edit("2025-09-05", "IM2COL_BACK", ("IM2COL_3D",)),
    Edit("2025-11-17", "SUM_ROWS", ("CUMSUM",)),
    Edit("2025-11-17", "LEAKY_RELU", ("TRI", "FILL")),
    Edit("2025-11-17", "RWKV_WKV7", ("SOLVE_TRI",)),
    Edit("2025-12-11", "ARGSORT", ("TOP_K",)),
    Edit("2026-03-15", "SOLVE_TRI", ("GATED_DELTA_NET",)),
    Edit("2026-06-11", "IM2COL_3D", ("COL2IM_1D",)),
    Edit("2026-07-17", "GATED_DELTA_NET", ("LIGHTNING_INDEXER",)),
    Edit("2026-07-17", "LIGHTNING_INDEXER", ("DSV4_HC_COMB", "DSV4_HC_PRE", "DSV4_HC_POST")),
)


@dataclass(frozen=True, slots=True)
class OpTable:
    """The op names of builds from `date` on, by number."""

    date: str
    names: tuple[str, ...]


def _tables() -> tuple[OpTable, ...]:
    names = list(FIRST)
    tables = [OpTable("2024-05-14", FIRST)]
    for edit in EDITS:
        names = [n for n in names if n not in edit.remove]
        if edit.add:
            at = names.index(edit.after) + 1
            names[at:at] = edit.add
        tables.append(OpTable(edit.date, tuple(names)))
    return tuple(tables)


#: Oldest first.
OP_TABLES: tuple[OpTable, ...] = _tables()

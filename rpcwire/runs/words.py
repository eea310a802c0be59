"""The words of the accounts: phases and roles, in the order in which they are shown."""

from __future__ import annotations

PHASES = ("load", "warmup", "prefill", "decode", "verify", "draft", "state", "other")

#: Phases that make up generation: they count in per-token figures.
GENERATION = ("decode", "verify", "draft")

ROLES = (
    "weights",
    "weights_hash",
    "probe",
    "allocation",
    "alloc_query",
    "graph",
    "graph_reuse",
    "embedding_in",
    "unused_input",
    "hidden_in",
    "hidden_out",
    "positions",
    "kv_indices",
    "kv_mask",
    "kv_rotation",
    "output_ids",
    "recurrent_ids",
    "expert_ids",
    "expert_out",
    "logits",
    "sampling",
    "draft_hidden",
    "recurrent_state",
    "kv_state",
    "copy",
    "other_input",
    "unknown",
)

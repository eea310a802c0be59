"""What differs between the graphs of families of models, besides which weights they have."""

from __future__ import annotations

#: Families whose graphs, block by block, were compared with recorded runs, per build.
LISTED = {
    "b11434": frozenset({"llama", "qwen3", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "b10688": frozenset({"llama", "qwen3moe", "qwen35"}),
    "0.3.30": frozenset({"llama", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "0.3.25": frozenset({"llama", "qwen3moe", "qwen35", "gemma3", "gpt-oss"}),
    "0.3.19": frozenset({"llama", "qwen3moe", "gemma3", "gpt-oss"}),
    "0.3.16": frozenset({"llama", "qwen3moe", "gemma3", "gpt-oss"}),
    "0.3.8": frozenset({"llama", "gemma3"}),
}
#: Families that pick the output rows after the last layer instead of inside it, and where.
LATE_OUTPUTS = {"gpt-oss": "before", "qwen35": "after", "qwen35moe": "after"}
#: Families whose embeddings, and those whose queries, are scaled.
SCALED = frozenset({"gemma", "gemma2", "gemma3", "gemma3n", "gemma4"})
#: Families whose attention computes the key before the value in every build.
KEY_FIRST = frozenset({"gemma3", "gpt-oss"})
SCALED_QUERY = frozenset({"gemma", "gemma2", "gemma3"})
#: How routed experts are weighted: softmax before or after the choice, sum made one, scaled.
SOFTMAX_LAST = frozenset({"gpt-oss"})
UNNORMED = frozenset({"gpt-oss", "qwen2moe", "olmoe"})
SCALED_WEIGHTS = frozenset({"deepseek2", "glm4moe", "bailingmoe2", "dots1", "kimi-linear"})

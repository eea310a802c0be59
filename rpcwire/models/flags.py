"""llama.cpp's own flags, as far as they decide what crosses the network.

llama-server, llama-cli and llama-bench spell some of them differently; a pasted command line may
also set them through `LLAMA_ARG_*` variables.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from rpcwire.errors import UsageError


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: the field it sets, its spellings, its variable, and what follows it.

    kind: "text", "int", "list" (may repeat and holds commas), "on" or "off" (nothing follows).
    """

    field: str
    spellings: tuple[str, ...]
    env: str = ""
    kind: str = "text"


FLAGS = (
    Flag("model", ("-m", "--model"), "LLAMA_ARG_MODEL"),
    Flag("rpc", ("--rpc", "-rpc"), "LLAMA_ARG_RPC", "list"),
    Flag("devices", ("-dev", "--device"), "LLAMA_ARG_DEVICE"),
    Flag("tensor_split", ("-ts", "--tensor-split"), "LLAMA_ARG_TENSOR_SPLIT"),
    Flag("gpu_layers", ("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS"),
    Flag("split_mode", ("-sm", "--split-mode"), "LLAMA_ARG_SPLIT_MODE"),
    Flag("main_gpu", ("-mg", "--main-gpu"), "LLAMA_ARG_MAIN_GPU", "int"),
    Flag("override_tensor", ("-ot", "--override-tensor"), "LLAMA_ARG_OVERRIDE_TENSOR", "list"),
    Flag("cpu_moe", ("-cmoe", "--cpu-moe"), "LLAMA_ARG_CPU_MOE", "on"),
    Flag("n_cpu_moe", ("-ncmoe", "--n-cpu-moe"), "LLAMA_ARG_N_CPU_MOE", "int"),
    Flag("ctx_size", ("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE", "int"),
    Flag("batch", ("-b", "--batch-size"), "LLAMA_ARG_BATCH", "int"),
    Flag("ubatch", ("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH", "int"),
    Flag("parallel", ("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL", "int"),
    Flag("kv_unified", ("-kvu", "--kv-unified"), "LLAMA_ARG_KV_UNIFIED", "on"),
    Flag("no_kv_unified", ("-no-kvu", "--no-kv-unified"), "", "on"),
    Flag("flash_attn", ("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN"),
    Flag("cache_type_k", ("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K"),
    Flag("cache_type_v", ("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V"),
    Flag("no_kv_offload", ("-nkvo", "--no-kv-offload"), "LLAMA_ARG_NO_KV_OFFLOAD", "on"),
    Flag("swa_full", ("--swa-full",), "LLAMA_ARG_SWA_FULL", "on"),
    Flag("spec_type", ("--spec-type",), "LLAMA_ARG_SPEC_TYPE"),
    Flag(
        "draft_max",
        ("--spec-draft-n-max", "--draft-max", "--draft", "--draft-n"),
        "LLAMA_ARG_SPEC_DRAFT_N_MAX",
        "int",
    ),
    Flag("draft_model", ("-md", "--model-draft", "--spec-draft-model"), "LLAMA_ARG_MODEL_DRAFT"),
    Flag("draft_devices", ("-devd", "--device-draft", "--spec-draft-device"), ""),
    Flag("draft_gpu_layers", ("-ngld", "--gpu-layers-draft", "--spec-draft-ngl"), ""),
    Flag("client_samples_drafts", ("--no-spec-draft-backend-sampling",), "", "on"),
    Flag("bench_prompt", ("-p", "--n-prompt"), "", "text"),
    Flag("bench_depth", ("-d", "--n-depth"), "", "text"),
)
_BY_SPELLING = {spelling: flag for flag in FLAGS for spelling in flag.spellings}
_BY_ENV = {flag.env: flag for flag in FLAGS if flag.env}
#: Optional value: only one of these words is taken as the value of `-fa`.
_SWITCHES = {"on", "off", "auto", "1", "0", "true", "false", "enabled", "disabled"}


@dataclass(slots=True)
class ServerFlags:
    """What a llama.cpp command line said; None where it was silent.

    `lists` fields keep the order in which they were given. `bench`: it was llama-bench.
    `ignored`: flags that change nothing here or are not known, and stray words.
    """

    model: str | None = None
    rpc: list[str] = field(default_factory=list)
    devices: str | None = None
    tensor_split: str | None = None
    gpu_layers: str | None = None
    split_mode: str | None = None
    main_gpu: int | None = None
    override_tensor: list[str] = field(default_factory=list)
    cpu_moe: bool = False
    n_cpu_moe: int | None = None
    ctx_size: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    parallel: int | None = None
    kv_unified: bool = False
    no_kv_unified: bool = False
    flash_attn: str | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    no_kv_offload: bool = False
    swa_full: bool = False
    spec_type: str | None = None
    draft_max: int | None = None
    draft_model: str | None = None
    draft_devices: str | None = None
    draft_gpu_layers: str | None = None
    client_samples_drafts: bool = False
    bench_prompt: str | None = None
    bench_depth: str | None = None
    bench: bool = False
    ignored: list[str] = field(default_factory=list)


def parse_command_line(words: list[str] | tuple[str, ...]) -> ServerFlags:
    """Read a llama.cpp command line, program name and variables included or not.

    Raises:
        UsageError: a flag of interest lacks its value or has one that makes no sense.
    """
    tokens = _split(list(words))
    flags = ServerFlags(bench=any(_is_bench(token) for token in tokens))
    index = 0
    while index < len(tokens):
        index = _one(flags, tokens, index)
    return flags


def _is_bench(token: str) -> bool:
    return token.replace("\\", "/").rpartition("/")[2].startswith("llama-bench")


def _positional(flags: ServerFlags, token: str) -> None:
    """A program's name, a variable set for it, or a word that belongs to nothing."""
    name, equals, value = token.partition("=")
    if equals and name in _BY_ENV:
        _set(flags, _BY_ENV[name], value, name)
    elif "llama" not in token.lower() and not equals:
        flags.ignored.append(token)


def _one(flags: ServerFlags, tokens: list[str], index: int) -> int:
    """Take the flag at `index`; return the index of the next one."""
    token = tokens[index]
    spelling, equals, inline = token.partition("=") if token.startswith("--") else (token, "", "")
    flag = _BY_SPELLING.get(spelling)
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if not token.startswith("-"):
        _positional(flags, token)
        return index + 1
    if flag is None:
        flags.ignored.append(spelling)
        takes = not equals and following is not None and not following.startswith("-")
        return index + (2 if takes else 1)
    if equals:
        _set(flags, flag, inline, spelling)
        return index + 1
    optional = flag.field == "flash_attn" or (flag.kind == "on" and flags.bench)
    if (flag.kind == "on" and not flags.bench) or (optional and not _is_switch(following)):
        _set(flags, flag, "on", spelling)
        return index + 1
    if following is None:
        raise UsageError(f"{spelling} lacks its value")
    _set(flags, flag, following, spelling)
    return index + 2


def _is_switch(word: str | None) -> bool:
    return word is not None and word.lower().partition(",")[0] in _SWITCHES


def _split(words: list[str]) -> list[str]:
    """A command line pasted as one argument is split as a shell would."""
    if len(words) == 1 and any(char.isspace() for char in words[0].strip()):
        try:
            words = shlex.split(words[0].replace("\\\n", " "))
        except ValueError as error:
            raise UsageError(f"the command line cannot be split: {error}") from error
    return [word for word in words if word.strip() not in ("", "\\")]


def _set(flags: ServerFlags, flag: Flag, value: str, spelling: str) -> None:
    if flag.kind == "list":
        getattr(flags, flag.field).append(value)
    elif flag.kind == "on":
        setattr(flags, flag.field, value.lower() in ("1", "on", "true", "enabled", "yes"))
    elif flag.kind == "int":
        first = value.partition(",")[0] if flags.bench else value
        try:
            setattr(flags, flag.field, int(first))
        except ValueError:
            raise UsageError(f"{spelling} {value!r} is not a whole number") from None
    else:
        setattr(flags, flag.field, value)

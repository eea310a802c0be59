"""What is predicted: a model, a command line and the versions at both ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rpcwire.errors import UsageError
from rpcwire.models.devices import endpoints
from rpcwire.models.flags import ServerFlags
from rpcwire.models.ggml_types import BY_NAME
from rpcwire.models.model import Model
from rpcwire.models.placement import Placement, gpu_layers, place
from rpcwire.predict.builds import Build, build_for, builds, parse_protocol, protocol_text
from rpcwire.predict.shape import Context, pad

#: Protocol that is assumed when none is given: the newest recorded one.
DEFAULT_PROTOCOL = "7.0"
MTP, SIMPLE = "draft-mtp", "draft-simple"
#: Flags that move sampling to the device of the output layer.
SAMPLING = frozenset({"-bs", "--backend-sampling"})


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing the prediction rests on.

    source: "gguf", "flag", "measured", "table" or "assumed".
    """

    name: str
    value: str
    source: str


@dataclass(slots=True)
class Scenario:
    """Everything that the counts depend on.

    Attributes:
        model, flags, protocol, build, placement, context: as their types say.
        prompt: tokens of the prompt to be computed. depth: tokens in the KV cache before a step.
        drafts: tokens drafted a round, 0 without speculative decoding.
        draft: the draft model's own scenario, or None with a prediction head or no drafting.
        assumptions: what was assumed or looked up, with its source.
        warnings: what a user should know first.
    """

    model: Model
    flags: ServerFlags
    protocol: tuple[int, int, int]
    build: Build
    placement: Placement
    context: Context
    prompt: int
    depth: int
    drafts: int
    draft: Scenario | None = None
    assumptions: list[Assumption] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def make_scenario(
    model: Model,
    flags: ServerFlags,
    *,
    protocol: str | None = None,
    build: str | None = None,
    local: tuple[str, ...] = (),
    prompt: int | None = None,
    depth: int | None = None,
    draft: Model | None = None,
) -> Scenario:
    """Read the flags as llama.cpp would and place the model.

    Args:
        model: its metadata.
        flags: the command line.
        protocol: "7.0", "none", …
        build: name of a build.
        local: local devices known otherwise.
        prompt: tokens to compute.
        depth: tokens in the KV cache before.
        draft: the model of `-md`, needed for `--spec-type draft-simple` only.

    Raises:
        UsageError: flags that make no sense together.
    """
    if not endpoints(flags):
        raise UsageError("no worker: give --rpc HOST:PORT (several with commas)")
    version = parse_protocol(protocol or DEFAULT_PROTOCOL)
    chosen, guessed = build_for(version, build)
    spec = spec_types(flags)
    heads = MTP in spec
    if SIMPLE in spec and draft is None:
        raise UsageError(f"--spec-type {SIMPLE} needs the draft model: -md FILE")
    old = chosen.draft_catch_up == "old"
    simple = SIMPLE in spec and not old
    if heads and not model.mtp_layers:
        raise UsageError(f"--spec-type {MTP}: the model has no prediction head")
    draft_max = 3 if flags.draft_max is None else flags.draft_max
    drafts = draft_max if heads or simple else 0
    if not 0 <= drafts <= 64:
        raise UsageError(f"--spec-draft-n-max {drafts} is out of range")
    placement = place(
        model,
        flags,
        list(local),
        output_first=chosen.output_first,
        legacy_names=version < (3, 0, 0),
        heads=heads,
    )
    context = _context(model, flags, chosen, heads, drafts)
    deep = depth if depth is not None else _bench_number(flags.bench_depth) or 0
    if deep < 0:
        raise UsageError("--depth is the number of tokens in the KV cache: 0 or more")
    deep = min(deep, max(context.n_ctx - 1, 0))
    words = prompt if prompt is not None else _bench_number(flags.bench_prompt) or 512
    if words < 1:
        raise UsageError("--prompt must be at least 1")
    scenario = Scenario(
        model=model,
        flags=flags,
        protocol=version,
        build=chosen,
        placement=placement,
        context=context,
        prompt=min(words, context.n_ctx),
        depth=deep,
        drafts=drafts,
        warnings=list(placement.warnings),
    )
    if old and flags.draft_model is not None:
        scenario.warnings.append(f"drafting with -md is not modelled for build {chosen.name}")
    if simple and draft is not None:
        scenario.draft = make_scenario(
            draft,
            _draft_flags(flags),
            protocol=protocol,
            build=build,
            local=local,
            prompt=scenario.prompt,
            depth=deep,
        )
    _assume(scenario, protocol, build, guessed, spec)
    if depth is not None and depth > deep:
        scenario.warnings.append(f"--depth {depth} does not fit into {context.n_ctx} cells")
    add = scenario.assumptions.append
    add(Assumption("tokens in the KV cache", str(deep), _given(depth or flags.bench_depth)))
    add(Assumption("prompt", f"{scenario.prompt} tokens", _given(prompt or flags.bench_prompt)))
    return scenario


def spec_types(flags: ServerFlags) -> list[str]:
    """Kinds of speculative decoding that `--spec-type` names."""
    return [part.strip() for part in (flags.spec_type or "").split(",") if part.strip()]


def _draft_flags(flags: ServerFlags) -> ServerFlags:
    """The draft model's own placement: its devices and layers, the split as for the target."""
    return replace(
        flags,
        devices=flags.draft_devices or flags.devices,
        gpu_layers=flags.draft_gpu_layers,
        override_tensor=[],
        cpu_moe=False,
        n_cpu_moe=None,
        spec_type=None,
        cache_type_k=None,
        cache_type_v=None,
    )


def _bench_number(text: str | None) -> int | None:
    """First number of a llama-bench list; None for anything else (llama-cli's -p is a text)."""
    first = (text or "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) else None


def _context(model: Model, flags: ServerFlags, build: Build, heads: bool, drafts: int) -> Context:
    flash = _flash(flags, build)
    type_k, type_v = _cache_type(flags.cache_type_k), _cache_type(flags.cache_type_v)
    if type_v not in (0, 1, 30) and not flash:
        raise UsageError("a quantised V cache (-ctv) needs flash attention (-fa on)")
    given = flags.parallel is not None and flags.parallel > 0  # 0 and -1: as many as it likes
    parallel = flags.parallel if given and flags.parallel is not None else 1
    if parallel > 1024 or (flags.parallel or 0) < -1:
        raise UsageError(f"-np {flags.parallel} is out of range")
    unified = (
        build.core == "copy"
        or (not given and not flags.no_kv_unified)
        or flags.kv_unified
        or parallel == 1
    )
    batch = 2048 if flags.batch is None else flags.batch
    if batch < 1:
        raise UsageError(f"-b {batch} is out of range")
    ubatch = min(512 if flags.ubatch is None else flags.ubatch or batch, batch)
    if ubatch < 1:
        raise UsageError(f"-ub {ubatch} is out of range")
    if (flags.ctx_size or 0) < 0:
        raise UsageError(f"-c {flags.ctx_size} is out of range")
    size = flags.ctx_size or model.context_length or 4096
    return Context(
        n_ctx=pad(max(size, 1), build.cells_flash if flash else build.cells_plain),
        n_batch=batch,
        n_ubatch=ubatch,
        n_parallel=parallel,
        n_slots=parallel if given or flags.bench else build.default_slots,
        unified=unified,
        flash=flash,
        type_k=type_k,
        type_v=type_v,
        offload_kv=not flags.no_kv_offload,
        swa_full=flags.swa_full,
        full_offload=gpu_layers(flags, model) > model.all_layers,
        rollback=drafts + 1 if heads else 1,
        draft_sampling=not flags.client_samples_drafts,
    )


def _flash(flags: ServerFlags, build: Build) -> bool:
    word = (flags.flash_attn or "auto").split(",")[0].strip().lower()
    if word in ("on", "1", "true", "enabled"):
        return True
    if word in ("off", "0", "false", "disabled"):
        return False
    if word not in ("auto", "-1"):
        raise UsageError(f"-fa {word}: on, off or auto")
    return build.flash_default[1 if flags.bench else 0]


def _cache_type(name: str | None) -> int:
    word = (name or "f16").split(",")[0].strip().lower()
    if word not in BY_NAME:
        raise UsageError(f"KV cache type {word!r} is not known")
    return BY_NAME[word]


def _assume(
    scenario: Scenario, protocol: str | None, build: str | None, guessed: bool, spec: list[str]
) -> None:
    """Write down what the scenario rests on."""
    add = scenario.assumptions.append
    context, flags = scenario.context, scenario.flags
    text = protocol_text(scenario.protocol)
    newest = max(parse_protocol(known) for one in builds().values() for known in one.protocols)
    if scenario.protocol[:2] > newest[:2]:
        scenario.warnings.append(
            f"protocol {text} is newer than any known here: {protocol_text(newest)} is assumed"
        )
    if not any(device.remote for device in scenario.placement.devices):
        scenario.warnings.append("-dev names no worker: nothing is computed on one")
    add(Assumption("protocol", text, "flag" if protocol else "assumed"))
    name = f"{scenario.build.name} ({scenario.build.date})"
    source = "flag" if build else ("assumed" if guessed else "table")
    add(Assumption("build of the graph builder", name, source))
    add(Assumption("flash attention", "on" if context.flash else "off", _given(flags.flash_attn)))
    add(Assumption("context", f"{context.n_ctx} cells", _given(flags.ctx_size)))
    add(Assumption("ubatch", f"{context.n_ubatch} tokens", _given(flags.ubatch)))
    if not scenario.placement.split_known:
        add(Assumption("tensor split", "even (llama.cpp splits by free memory)", "assumed"))
    if scenario.model.source == "config":
        add(Assumption("tensor sizes", "; ".join(scenario.model.notes), "assumed"))
    others = [word for word in spec if word not in (MTP, "none")]
    if scenario.draft is not None:
        others = [word for word in others if word != SIMPLE]
    if others:
        scenario.warnings.append(f"--spec-type {','.join(others)} is not modelled")
    if scenario.draft is not None:
        add(Assumption("draft model", f"{scenario.draft.model.arch}, {flags.draft_model}", "flag"))
    if SAMPLING & set(flags.ignored):
        scenario.warnings.append(
            "sampling on the worker is not modelled: candidates would cross instead of logits"
        )
    if flags.ignored:
        listed = " ".join(dict.fromkeys(flags.ignored))
        add(Assumption("flags without effect on the wire, as far as known", listed, "assumed"))


def _given(value: object) -> str:
    return "assumed" if value is None else "flag"

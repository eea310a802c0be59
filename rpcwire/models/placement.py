"""Where llama.cpp puts each layer and tensor (`llama_model::load_tensors`)."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from rpcwire.errors import UsageError
from rpcwire.models.devices import CPU, LOCAL_NAME, Device, list_devices
from rpcwire.models.flags import ServerFlags
from rpcwire.models.model import Model, layer_of

#: What `-cmoe` and `-ncmoe` override, in llama.cpp's own words.
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
#: Tensors of the input layer, which stay on the client's CPU.
_INPUT = ("token_embd", "token_types", "position_embd", "per_layer_token_embd", "token_embd_norm")


@dataclass(slots=True)
class Placement:
    """Devices and what each holds.

    Attributes:
        devices: in the scheduler's order; the last one is the CPU.
        layers: device number of each layer, prediction heads included. output: of the output layer.
        overrides: tensor name patterns and the device each goes to, first match first.
        model: whose tensors are placed. heads: prediction heads are loaded as well.
        split_known: the split was given; without `-ts` llama.cpp splits by free memory.
        warnings: what a user should know.
    """

    devices: tuple[Device, ...]
    layers: tuple[int, ...]
    output: int
    overrides: tuple[tuple[re.Pattern[str], int], ...]
    model: Model
    heads: bool
    split_known: bool
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._shapes = {tensor.name: tensor.shape for tensor in self.model.tensors}
        self.tensor_names = frozenset(self._shapes)

    _shapes: dict[str, tuple[int, ...]] = None  # type: ignore[assignment]
    tensor_names: frozenset[str] = frozenset()

    @property
    def cpu(self) -> int:
        """Number of the client's CPU."""
        return len(self.devices) - 1

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, or () when the model has none of that name."""
        return self._shapes.get(name, ())

    def layer_device(self, layer: int) -> int:
        """Device number of a layer."""
        return self.layers[layer]

    def device_of(self, name: str) -> int:
        """Device number of a tensor; of `output.weight` also where the embedding serves as it."""
        searched = name
        if name == "output.weight" and name not in self.tensor_names:
            searched = "token_embd.weight"
        for pattern, device in self.overrides:
            if pattern.search(searched):
                return device
        layer = layer_of(name)
        if layer is not None:
            return self.layers[layer] if layer < len(self.layers) else self.output
        if name.partition(".")[0] in _INPUT:
            return self.cpu
        return self.output

    def weight_bytes(self) -> list[int]:
        """Bytes of weights on each device; a tied output layer counts where it is copied to."""
        totals = [0] * len(self.devices)
        for tensor in self.model.tensors:
            layer = layer_of(tensor.name)
            if layer is not None and layer >= self.model.layers and not self.heads:
                continue
            totals[self.device_of(tensor.name)] += tensor.bytes
        if "output.weight" not in self.tensor_names:
            tied = next((t for t in self.model.tensors if t.name == "token_embd.weight"), None)
            if tied is not None and self.device_of("output.weight") != self.cpu:
                totals[self.device_of("output.weight")] += tied.bytes
        return totals

    def chain(self) -> list[int]:
        """Devices that a hidden state visits: embedding, layers, output."""
        stops = [self.cpu, *self.layers[: self.model.layers], self.device_of("output.weight")]
        return [stop for i, stop in enumerate(stops) if i == 0 or stop != stops[i - 1]]

    def boundaries(self) -> int:
        """Changes of device along the chain with a worker on at least one side."""
        chain = self.chain()
        return sum(self.devices[a].remote or self.devices[b].remote for a, b in pairwise(chain))


def parse_split(text: str, count: int) -> tuple[list[float], list[str]]:
    """Read `-ts` (commas or slashes) for `count` devices; return it padded, and warnings.

    Raises:
        UsageError: not numbers, negative, or all zero where it must not be.
    """
    parts = [part.strip() for part in re.split(r"[,/;]", text) if part.strip()]
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise UsageError(f"-ts {text!r}: not a list of proportions") from None
    if any(not 0 <= number < 1e12 for number in numbers):
        raise UsageError(f"-ts {text!r}: proportions are zero or more")
    warnings = []
    if len(numbers) < count:
        warnings.append(
            f"-ts {text} names {len(numbers)} of {count} devices: llama.cpp pads it with zeros, "
            "the others get no layer"
        )
    if len(numbers) > count:
        warnings.append(f"-ts {text} names {len(numbers)} devices; there are {count}")
    return (numbers + [0.0] * count)[:count], warnings


def gpu_layers(flags: ServerFlags, model: Model) -> int:
    """Value of `-ngl`; "all", "auto" and silence offload everything.

    Raises:
        UsageError: not a number.
    """
    text = (flags.gpu_layers or "all").split(",")[0].strip().lower()
    if text in ("all", "auto"):
        return model.all_layers + 1
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"-ngl {text!r} is not a number of layers") from None
    return model.all_layers + 1 if value < 0 else value


def place(
    model: Model,
    flags: ServerFlags,
    local: list[str],
    *,
    output_first: bool = True,
    legacy_names: bool = False,
    heads: bool = False,
) -> Placement:
    """Place a model as llama.cpp would.

    Args:
        model: what to place.
        flags: the command line.
        local: local devices known otherwise.
        output_first: `-ngl N` takes the output layer first (builds since autumn 2025).
        legacy_names: device buffers are called as before protocol 3.0.
        heads: prediction heads are used.

    Raises:
        UsageError: flags that llama.cpp would refuse.
    """
    devices = list_devices(flags, local, legacy_names)
    warnings: list[str] = []
    if flags.split_mode in ("row", "tensor"):
        warnings.append(f"-sm {flags.split_mode} is not modelled; -sm layer is assumed")
    if flags.split_mode == "none" and devices:
        main = flags.main_gpu or 0
        if not 0 <= main < len(devices):
            raise UsageError(f"-mg {main}: there are {len(devices)} devices")
        devices = [devices[main]]
    split = [0.0] * len(devices)
    if flags.tensor_split:
        # a comma of llama-bench's separates the values of several tests
        text = flags.tensor_split.partition(",")[0] if flags.bench else flags.tensor_split
        split, warnings_split = parse_split(text, len(devices))
        warnings += warnings_split
    known = any(split)
    layers, output = _assign(model, devices, split, gpu_layers(flags, model), output_first)
    all_devices = (*devices, CPU)
    return Placement(
        devices=all_devices,
        layers=layers,
        output=output,
        overrides=tuple(_overrides(flags, all_devices)),
        model=model,
        heads=heads,
        split_known=known or len(devices) < 2,
        warnings=tuple(warnings),
    )


def _assign(
    model: Model, devices: list[Device], split: list[float], ngl: int, output_first: bool
) -> tuple[tuple[int, ...], int]:
    total = model.all_layers
    cpu = len(devices)
    if not any(split):
        split = [1.0] * len(devices)
    sums = [sum(split[: i + 1]) for i in range(len(split))]
    points = [value / sums[-1] for value in sums] if sums else []
    start = max(total + (1 if output_first else 0) - ngl, 0)
    active = min(ngl, total + 1) if devices else 0

    def device(layer: int) -> int:
        if layer < start or layer - start >= active:
            return cpu
        return min(bisect_right(points, (layer - start) / active), cpu - 1)

    return tuple(device(layer) for layer in range(total)), device(total)


def _overrides(
    flags: ServerFlags, devices: tuple[Device, ...]
) -> list[tuple[re.Pattern[str], int]]:
    found: list[tuple[re.Pattern[str], int]] = []
    for value in flags.override_tensor:
        for part in re.split(r"[,;]" if flags.bench else ",", value):
            pattern, equals, buffer = part.strip().strip("'\"").partition("=")
            if not equals:
                raise UsageError(f"-ot {part!r}: give <tensor name pattern>=<buffer type>")
            found.append((_regex(pattern), _buffer(buffer, devices)))
    if flags.cpu_moe:
        found.append((_regex(EXPERTS), len(devices) - 1))
    local = [rf"blk\.{layer}{EXPERTS}" for layer in range(min(flags.n_cpu_moe or 0, 4096))]
    found += [(_regex(pattern), len(devices) - 1) for pattern in local]
    return found


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"-ot {pattern!r} is not a regular expression: {error}") from error


def _buffer(name: str, devices: tuple[Device, ...]) -> int:
    wanted = name.strip().upper()
    for number, device in enumerate(devices):
        if wanted in (device.buffer.upper(), device.name.upper()):
            return number
    if LOCAL_NAME.match(name) or wanted.endswith("_HOST"):
        return len(devices) - 1
    raise UsageError(
        f"-ot …={name}: no such buffer; there are {', '.join(device.buffer for device in devices)}"
    )

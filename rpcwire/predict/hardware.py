"""What computing costs on each device: bytes read from its memory, at its bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcwire.errors import UsageError
from rpcwire.links.gpus import efficiency, find_gpu
from rpcwire.models.ggml_types import row_bytes
from rpcwire.models.header import TensorInfo
from rpcwire.models.model import layer_of
from rpcwire.predict.scenario import Assumption, Scenario

#: Spread of a measured baseline: what one run differs from the next by, and a figure of two digits.
#: Assumed; 3 % until one published case had missed it by a little (docs/predict.md).
BASELINE_SPREAD = (0.95, 1.0, 1.05)


@dataclass(slots=True)
class Hardware:
    """What is known of the machines.

    Attributes:
        bandwidths: GB/s by device name. names: what each is called.
        baseline: tokens/s measured without the network, or None.
        assumptions: where the figures come from.
    """

    bandwidths: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    baseline: float | None = None
    assumptions: list[Assumption] = field(default_factory=list)

    @property
    def local(self) -> tuple[str, ...]:
        """Devices of the client that were named."""
        return tuple(n for n in self.bandwidths if not n.upper().startswith(("RPC", "CPU")))


def read_hardware(
    gpus: tuple[str, ...], bandwidths: tuple[str, ...], baseline: float | None
) -> Hardware:
    """Read `--gpu DEV=NAME`, `--membw DEV=GB/s` and `--baseline`.

    Raises:
        UsageError: not of that form, not in the table, or not a positive number.
    """
    hardware = Hardware(baseline=baseline)
    for text in gpus:
        device, name = _pair(text, "--gpu", "RPC0=rtx-4060-ti")
        key, value, source = find_gpu(name)
        hardware.bandwidths[device], hardware.names[device] = value, key
        note = f"{key}, {value:g} GB/s ({source})"
        hardware.assumptions.append(Assumption(f"{device}", note, "table"))
    for text in bandwidths:
        device, number = _pair(text, "--membw", "RPC0=288")
        try:
            value = float(number.lower().removesuffix("gb/s"))
        except ValueError:
            value = 0.0
        if not 0 < value < 1e6:
            raise UsageError(f"--membw {text}: give GB/s, for example RPC0=288")
        hardware.bandwidths[device] = value
        hardware.assumptions.append(Assumption(f"{device}", f"{value:g} GB/s", "flag"))
    if baseline is not None:
        if not 0 < baseline < 1e6:
            raise UsageError("--baseline must be a positive number of tokens/s")
        hardware.assumptions.append(
            Assumption("speed without the network", f"{baseline:g} tokens/s", "measured")
        )
    if hardware.bandwidths and baseline is None:
        e = efficiency()
        low, mid, high = (f"{100 * part:.0f}" for part in e.bandwidth)
        text = f"{low}–{mid}–{high} % of it, and {e.layer_us[1]:g} µs a layer"
        hardware.assumptions.append(Assumption("memory bandwidth reached", text, "assumed"))
    return hardware


def _pair(text: str, flag: str, example: str) -> tuple[str, str]:
    device, equals, value = text.partition("=")
    if not equals or not device.strip() or not value.strip():
        raise UsageError(f"{flag} {text!r}: give DEVICE=VALUE, for example {example}")
    name = device.strip()
    return (name.upper() if name.upper().startswith(("RPC", "CPU")) else name), value.strip()


def check_devices(hardware: Hardware, names: list[str]) -> None:
    """See that every machine described is one of the split.

    Raises:
        UsageError: a device that the placement does not know.
    """
    for device in hardware.bandwidths:
        if device not in names:
            raise UsageError(f"{device} is described but not used: there are {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class Compute:
    """Milliseconds of computing per device, low, mid and high *speed*.

    Attributes:
        ms: total of the three cases. by_device: the mid case, per device name.
    """

    ms: tuple[float, float, float]
    by_device: dict[str, float]


def compute_time(
    scenario: Scenario, hardware: Hardware, rows: int = 1, *, head: bool = False
) -> Compute | None:
    """Time to compute one pass; None where a device with weights to read is not known.

    Args:
        scenario: what runs.
        hardware: on what.
        rows: rows of the batch, which decide how many experts are read.
        head: the pass of the draft head instead of the target's.
    """
    if hardware.baseline is not None:
        if head:
            return None
        ms = 1000 / hardware.baseline
        low, mid, high = (ms / part for part in BASELINE_SPREAD)
        return Compute((low, mid, high), {"baseline": mid})
    read, layers = _bytes_read(scenario, rows, head)
    e = efficiency()
    totals = [0.0, 0.0, 0.0]
    by_device = {}
    for number, size in read.items():
        device = scenario.placement.devices[number]
        bandwidth = hardware.bandwidths.get(device.name)
        if bandwidth is None:
            return None
        for case in range(3):
            ms = size / (bandwidth * 1e6 * e.bandwidth[case])
            ms += layers.get(number, 0) * e.layer_us[case] / 1e3
            totals[case] += ms
            if case == 1:
                by_device[device.name] = ms
    return Compute((totals[0], totals[1], totals[2]), by_device)


def _bytes_read(
    scenario: Scenario, rows: int, head: bool
) -> tuple[dict[int, float], dict[int, int]]:
    """Bytes that each device reads in one pass, and the layers that it computes."""
    model, placement = scenario.model, scenario.placement
    read: dict[int, float] = {}
    for tensor in model.tensors:
        part = _part_read(scenario, tensor, rows, head)
        if part:
            device = placement.device_of(tensor.name)
            read[device] = read.get(device, 0.0) + tensor.bytes * part
    if "output.weight" not in placement.tensor_names:
        tied = next((t for t in model.tensors if t.name == "token_embd.weight"), None)
        if tied is not None:
            device = placement.device_of("output.weight")
            read[device] = read.get(device, 0.0) + tied.bytes
    wanted = range(model.layers, model.all_layers) if head else range(model.layers)
    layers: dict[int, int] = {}
    for layer in wanted:
        device = placement.layers[layer]
        layers[device] = layers.get(device, 0) + 1
        read[device] = read.get(device, 0.0) + _state_read(scenario, layer)
    return read, layers


def _part_read(scenario: Scenario, tensor: TensorInfo, rows: int, head: bool) -> float:
    model = scenario.model
    layer = layer_of(tensor.name)
    if layer is None:
        return 1.0 if tensor.name.startswith("output") else 0.0
    if (layer >= model.layers) != head:
        return 0.0
    if model.experts and "_exps" in tensor.name:
        unused = 1 - model.experts_used / model.experts
        return float(1 - unused**rows)
    return 1.0


def _state_read(scenario: Scenario, layer: int) -> float:
    model, context = scenario.model, scenario.context
    if model.recurrent[layer]:
        return 8.0 * (model.ssm_state + model.conv_state)  # read and written
    cells = scenario.depth
    if model.sliding[layer]:
        cells = min(cells, model.window)
    row = row_bytes(context.type_k, model.k_gqa(layer)) + row_bytes(
        context.type_v, model.v_gqa(layer)
    )
    return float(cells * row)

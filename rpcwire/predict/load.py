"""Loading the model: what goes to the workers, cold and with their caches filled."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from rpcwire.models.ggml_types import QUANTIZED
from rpcwire.models.header import TensorInfo
from rpcwire.models.model import layer_of
from rpcwire.predict.scenario import Scenario
from rpcwire.predict.wire import Wire

#: Tensors above this are looked up in the worker's cache by a hash (`HASH_THRESHOLD`).
HASH_THRESHOLD = 10 << 20
HASH_REQUEST = 9 + 296 + 16  #: bytes of one SET_TENSOR_HASH
#: Bytes a second that one thread hashes (FNV-1a, 64 bits): 1.25 GiB/s reported, field notes.
HASH_RATE = 1.25 * (1 << 30)
#: Bytes a second that the client reads and copies: rest of a profile of 15.7 GiB in 41.5 s of
#: which 12.6 s hashing and 4.3 s wire (field notes).
READ_RATE = 15.7 * (1 << 30) / (41.5 - 12.6 - 4.3)
#: Quantised weights whose rows are no multiple of this are initialised by a request of their own.
_ROW_STEP = 512


@dataclass(frozen=True, slots=True)
class Load:
    """Bytes of a load.

    Attributes:
        up: to the workers, nothing cached. up_cached: with every hash found.
        down: answers. hashed: bytes that the client hashes. waits, waits_cached: round trips.
    """

    up: int
    up_cached: int
    down: int
    hashed: int
    waits: int
    waits_cached: int

    def seconds(self, rtt: float, rate: float) -> tuple[float, float]:
        """Time of a cold and of a cached load: reading, hashing and sending follow one another."""
        read = self.up / READ_RATE
        hashing = self.hashed / HASH_RATE
        cold = read + hashing + self.up / rate + self.waits * rtt
        cached = read + hashing + self.up_cached / rate + self.waits_cached * rtt
        return cold, cached

    def limited_by(self, rate: float) -> str:
        """What most of a cold load waits for."""
        parts = {
            "link": self.up / rate,
            "hashing": self.hashed / HASH_RATE,
            "reading the file": self.up / READ_RATE,
        }
        return max(parts, key=lambda key: parts[key])


def predict_load(scenario: Scenario) -> Load:
    """Count the weights that go to workers, and what goes with them; a draft model's as well."""
    one = _load_one(scenario)
    if scenario.draft is None:
        return one
    two = _load_one(scenario.draft)
    return Load(*(a + b for a, b in zip(astuple(one), astuple(two), strict=True)))


def _load_one(scenario: Scenario) -> Load:
    wire, placement = Wire(scenario.protocol), scenario.placement
    up = cached = down = hashed = waits = waits_cached = 0
    hashes = wire.at_least(1)
    names = [(tensor.name, tensor.bytes, tensor.shape, tensor.type) for tensor in _loaded(scenario)]
    for name, size, shape, kind in names:
        device = placement.device_of(name)
        if not placement.devices[device].remote:
            continue
        send = wire.set_tensor(device, size, "weights")
        up, down, waits = up + send.up, down + send.down, waits + send.waits
        if hashes and size > HASH_THRESHOLD:
            up, down, waits = up + HASH_REQUEST, down + 9, waits + 1
            cached, hashed, waits_cached = cached + HASH_REQUEST, hashed + size, waits_cached + 1
        else:
            cached, waits_cached = cached + send.up, waits_cached + send.waits
        if kind in QUANTIZED and shape and shape[0] % _ROW_STEP:
            extra = 9 + 296
            answered = not wire.at_least(6)
            up, cached = up + extra, cached + extra
            waits, waits_cached = waits + answered, waits_cached + answered
            queries = 0 if wire.at_least(6) else 3
            query = wire.alloc_query(device)
            up, cached = up + queries * query.up, cached + queries * query.up
            down += queries * query.down
            waits, waits_cached = waits + queries, waits_cached + queries
    return Load(up, cached, down, hashed, waits, waits_cached)


def _loaded(scenario: Scenario) -> list[TensorInfo]:
    model, placement = scenario.model, scenario.placement
    found = [
        tensor
        for tensor in model.tensors
        if not ((layer := layer_of(tensor.name)) is not None and layer >= model.layers)
        or placement.heads
    ]
    if "output.weight" not in placement.tensor_names:
        tied = [tensor for tensor in model.tensors if tensor.name == "token_embd.weight"]
        found += [
            TensorInfo("output.weight", tensor.type, tensor.shape, tensor.bytes) for tensor in tied
        ]
    return found

"""The fault laboratory: recorded runs, each with a fault of its own, and what must be found.

captures/faults/README.md says how each was recorded. `EXPECTED` names every finding of every
capture, so that a check that fires on another one's fault is seen as well as one that does not
fire on its own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rpcwire.diagnosis import Diagnosis, diagnose

CAPTURES = Path(__file__).parents[2] / "captures"
FAULTS = CAPTURES / "faults"

#: What nearly every run of a current build has: remarks.
USUAL = frozenset({"unused-inputs", "remote-output-layer"})
OLD = frozenset({"remote-output-layer"})
#: What an MTP run has besides; and one whose drafts are mostly rejected.
MTP = USUAL | {"verify-logits", "draft-prefill-hidden", "prompt-checkpoint"}
REJECTED = frozenset({"low-acceptance", "draft-round-trips", "graph-resent"})

#: capture -> (warnings and problems, remarks).
EXPECTED: dict[str, tuple[frozenset[str] | set[str], frozenset[str] | set[str]]] = {
    # -- runs without a fault, of every dialect --------------------------------------------------
    "v3.6.1-llama-bench": (set(), OLD),
    "v4.0.1-llama-server": (set(), OLD),
    "v7.0-llama-server": (set(), USUAL | {"prompt-cache-save"}),
    "v7.0-defaults": (set(), USUAL | {"prompt-cache-save"}),
    "v7.0-qwen3moe": (set(), USUAL),
    "v7.0-output-local": (set(), {"unused-inputs"}),
    "v7.0-qwen35-plain": (set(), USUAL | {"prompt-checkpoint"}),
    "v7.0-link-1gbe": ({"routable-listener"}, USUAL | {"prompt-checkpoint"}),
    "ssh-worker-side": (set(), USUAL),
    # -- and what their protocol or placement costs, by the contract's limits ---------------------
    "protocol-none": ({"graph-resent"}, OLD),
    "v2.0.0-llama-bench": ({"graph-resent"}, OLD),
    "v7.0-two-servers": ({"relayed-between-workers"}, USUAL),
    # -- speculation -----------------------------------------------------------------------------
    "mtp-accepted": (REJECTED - {"low-acceptance"}, MTP),
    "v7.0-qwen35-mtp": (REJECTED, MTP),
    "v7.0-mtp-partial": (REJECTED, MTP),
    "mtp-two-workers": (REJECTED, MTP | {"relayed-between-workers"}),
    "mtp-100mbit": (REJECTED | {"negotiated-100mbit", "routable-listener"}, MTP),
    "ngram-hybrid": ({"recurrent-state-transfer"}, USUAL | {"prompt-checkpoint", "verify-logits"}),
    "alloc-storm": (REJECTED | {"alloc-query-storm"}, MTP - USUAL | OLD | {"prompt-cache-save"}),
    "parallel-mtp": (
        REJECTED | {"parallel-serialised", "alloc-query-storm"},
        MTP - USUAL | OLD | {"prompt-cache-save"},
    ),
    # -- placement -------------------------------------------------------------------------------
    "experts-on-client": ({"extra-crossings", "graph-resent", "graph-ancestry"}, USUAL),
    "unanchored-ot": ({"extra-crossings", "graph-resent", "graph-ancestry"}, {"unused-inputs"}),
    "graph-reuse-off": ({"graph-resent"}, USUAL),
    "idle-worker": (set(), USUAL | {"worker-idle"}),
    "slow-worker": ({"worker-uneven"}, USUAL | {"relayed-between-workers"}),
    # -- inputs ----------------------------------------------------------------------------------
    "v7.0-kv-q8": ({"kv-rotation"}, USUAL | {"prompt-checkpoint"}),
    "kv-q8": ({"kv-rotation"}, USUAL),
    "long-context": (set(), USUAL | {"mask-growth"}),
    # -- link ------------------------------------------------------------------------------------
    "high-latency": ({"latency-bound", "routable-listener"}, USUAL | {"prompt-cache-save"}),
    "high-latency-worker": (
        {"latency-bound", "routable-listener"},
        USUAL | {"prompt-cache-save"},
    ),
    "jitter": ({"latency-bound", "jitter", "routable-listener"}, USUAL | {"prompt-cache-save"}),
    "loss": (
        {"latency-bound", "routable-listener"},
        USUAL | {"prompt-cache-save", "retransmissions"},
    ),
    "ethernet-100mbit": ({"negotiated-100mbit", "routable-listener"}, USUAL),
    "slow-link": (USUAL | {"link-saturated", "jitter", "routable-listener"}, {"retransmissions"}),
    "nagle-proxy": ({"delayed-ack-stall"}, USUAL),
    "nagle-proxy-client": ({"delayed-ack-stall"}, USUAL),
    "ssh-client-side": (set(), USUAL | {"tunnel"}),
    "v7.0-ssh-tunnel": (set(), USUAL | {"tunnel", "delayed-ack-stall"}),
    # -- load ------------------------------------------------------------------------------------
    "cache-cold": (set(), USUAL | {"load-client-bound", "worker-cache-missed"}),
    "activations-hashed": (set(), {"activations-hashed", "worker-cache-missed", "mask-growth"}),
    # -- server ----------------------------------------------------------------------------------
    "client-layers": ({"client-bound"}, OLD),
    "second-client": ({"second-client-waiting"}, USUAL | {"prompt-cache-save"}),
    # -- versions and capture --------------------------------------------------------------------
    "version-mismatch": ({"version-mismatch"}, set()),
    "dropped": ({"capture-loss"}, USUAL),
    "ends-early": (set(), USUAL | {"capture-cut"}),
    "snap-96": (set(), {"unused-inputs", "capture-cut"}),
    "one-sided": ({"one-sided-capture"}, USUAL | {"prompt-cache-save"}),
}


def path(name: str) -> str:
    """Where a capture is, in captures/ or captures/faults/."""
    found = [p for folder in (FAULTS, CAPTURES) for p in folder.glob(f"{name}.pcap*")]
    assert len(found) == 1, name
    return str(found[0])


@cache
def diagnosed(name: str) -> Diagnosis:
    """The diagnosis of a capture, made once."""
    return diagnose(path(name))

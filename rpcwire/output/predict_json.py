"""A prediction as the JSON document of `predict --json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rpcwire.predict.passes import Pass
from rpcwire.predict.prediction import LinkResult, Prediction, usual_link
from rpcwire.predict.recorded import Recorded
from rpcwire.predict.wire import Exchange

SCHEMA_VERSION = 1


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """Make the document; its schema is data/schema/predict.json."""
    scenario = prediction.scenario
    model = scenario.model
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": {
            "arch": model.arch,
            "name": model.name,
            "hidden_size": model.hidden_size,
            "layers": model.layers,
            "vocab_size": model.vocab_size,
            "file_bytes": model.file_bytes,
            "mtp_layers": model.mtp_layers,
        },
        "placement": _placement(prediction),
        "decode": _step(prediction, prediction.run.decode),
        "prefill": _prefill(prediction),
        "draft": _draft(prediction),
        "load": {
            "bytes_up": prediction.load.up,
            "bytes_up_cached": prediction.load.up_cached,
            "bytes_down": prediction.load.down,
            "hashed_bytes": prediction.load.hashed,
        },
        "links": [_link(result) for result in prediction.links],
        "assumptions": [
            {"name": one.name, "value": one.value, "source": one.source}
            for one in prediction.assumptions
        ],
        "warnings": prediction.warnings,
        "graphs_recorded": prediction.listed,
    }
    if prediction.run.slots is not None:
        slots = prediction.run.slots
        document["parallel"] = {
            "slots": scenario.context.n_parallel,
            "bytes_up_per_step": slots.up,
            "bytes_down_per_step": slots.down,
            "round_trips_per_step": slots.round_trips,
        }
    return document


def recorded_document(recorded: Recorded, results: Sequence[LinkResult]) -> dict[str, Any]:
    """The document of a replayed run: what only a model file tells is null."""
    token, prompt = recorded.token, recorded.prompt
    unknown = ("arch", "hidden_size", "layers", "vocab_size", "file_bytes", "mtp_layers")
    return {
        "schema_version": SCHEMA_VERSION,
        "model": dict.fromkeys(unknown),
        "placement": [
            {
                "device": f"RPC{number}",
                "endpoint": endpoint,
                "layers": None,
                "weight_bytes": None,
                "output_layer": None,
                "boundaries": None,
            }
            for number, endpoint in enumerate(recorded.endpoints)
        ],
        "decode": {
            "bytes_up_per_token": token.up,
            "bytes_down_per_token": token.down,
            "round_trips_per_token": token.round_trips,
            "floor_bytes_per_token": None,
            "roles": [{"role": role, "bytes_per_token": size} for role, size in recorded.roles],
        },
        "prefill": {
            "bytes_up_per_token": prompt.up,
            "bytes_down_per_token": prompt.down,
            "round_trips_per_ubatch": None,
        },
        "draft": None,
        "load": {"bytes_up": recorded.load_up, "bytes_up_cached": None},
        "links": [_link(result) for result in results],
        "assumptions": [
            {"name": one.name, "value": one.value, "source": one.source}
            for one in recorded.assumptions()
        ],
        "warnings": [],
        "graphs_recorded": True,
    }


def _placement(prediction: Prediction) -> list[dict[str, Any]]:
    placement = prediction.scenario.placement
    weights = placement.weight_bytes()
    chain = placement.chain()
    output = placement.device_of("output.weight")
    rows = []
    for number, device in enumerate(placement.devices):
        layers = [
            layer
            for layer in range(prediction.scenario.model.layers)
            if placement.layers[layer] == number
        ]
        edges = sum(
            number in (a, b) and (placement.devices[a].remote or placement.devices[b].remote)
            for a, b in pairwise(chain)
        )
        rows.append(
            {
                "device": device.name,
                "endpoint": device.endpoint,
                "layers": len(layers),
                "first_layer": layers[0] if layers else None,
                "last_layer": layers[-1] if layers else None,
                "weight_bytes": weights[number],
                "output_layer": output == number,
                "boundaries": edges,
            }
        )
    return rows


def _step(prediction: Prediction, step: Pass) -> dict[str, Any]:
    return {
        "bytes_up_per_token": step.up,
        "bytes_down_per_token": step.down,
        "round_trips_per_token": step.round_trips,
        "floor_bytes_per_token": prediction.floor_bytes_per_token,
        "roles": _roles(prediction, step.exchanges),
    }


def _roles(prediction: Prediction, exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
    return [
        {
            "role": role,
            "bytes_up": up,
            "bytes_down": down,
            "frames": frames,
            "bytes_per_token": up + down,
        }
        for role, up, down, frames in prediction.roles(exchanges)
    ]


def _prefill(prediction: Prediction) -> dict[str, Any]:
    run, tokens = prediction.run, prediction.scenario.prompt
    passes = [*run.prefill, *run.prefill_heads]
    return {
        "bytes_up_per_token": sum(one.up for one in passes) / tokens,
        "bytes_down_per_token": sum(one.down for one in passes) / tokens,
        "round_trips_per_ubatch": sum(one.round_trips for one in passes) / len(run.prefill),
        "ubatches": len(run.prefill),
        "tokens": tokens,
        "state_bytes": run.state_bytes,
    }


def _draft(prediction: Prediction) -> dict[str, Any] | None:
    one = prediction.run.round
    if one is None:
        return None
    exchanges = one.exchanges
    first = usual_link(prediction.links).break_even if prediction.links else None
    return {
        "bytes_up_per_round": sum(exchange.up for exchange in exchanges),
        "bytes_down_per_round": sum(exchange.down for exchange in exchanges),
        "round_trips_per_round": sum(exchange.waits for exchange in exchanges),
        "tokens_per_round": prediction.tokens_per_round,
        "break_even_acceptance": first,
        "drafted_per_round": prediction.scenario.drafts,
        "roles": [
            {"role": role, "bytes_up": up, "bytes_down": down, "frames": frames}
            for role, up, down, frames in prediction.roles(exchanges)
        ],
    }


def _link(result: LinkResult) -> dict[str, Any]:
    speeds = result.tokens_per_s
    return {
        "link": result.link.name,
        "title": result.link.title,
        "rtt_ms": result.link.rtt_ms[1],
        "mbit_s": result.link.mbit_s[1],
        "decode": {
            "network_ms_per_token": result.network_ms,
            "ms_per_token": result.total_ms,
            "tokens_per_s": None
            if speeds is None
            else {"low": speeds[0], "mid": speeds[1], "high": speeds[2]},
            "network_share": result.share,
            "ceiling_tokens_per_s": result.ceiling if math.isfinite(result.ceiling) else None,
            "break_even_acceptance": result.break_even,
        },
        "prefill": {
            "network_ms_per_token": result.prefill_ms,
            "tokens_per_s": result.prefill_tokens_per_s,
        },
        "load": {
            "cold_s": result.cold_s,
            "cached_s": result.cached_s,
            "limited_by": result.load_limited_by,
        },
        "verdict": result.verdict,
        "limited_by": result.limited_by,
        "sources": list(result.link.sources),
    }

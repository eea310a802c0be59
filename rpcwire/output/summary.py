"""The answer in two or three sentences, before any table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.output.units import (
    bytes_text,
    ms_text,
    number_text,
    plural,
    seconds_text,
    share_text,
    trips_text,
)

if TYPE_CHECKING:
    from rpcwire.analysis import Analysis, PerToken, WorkerInfo

#: What a role is, for the sentence that says where a token's bytes go.
ROLE_WORDS = {
    "weights": "weights",
    "weights_hash": "weight hashes",
    "probe": "probes",
    "allocation": "allocations",
    "alloc_query": "size queries (GET_ALLOC_SIZE)",
    "graph": "graphs sent in full",
    "graph_reuse": "graph reuse",
    "embedding_in": "embeddings",
    "unused_input": "inputs that nothing reads",
    "hidden_in": "hidden states up",
    "hidden_out": "hidden states down",
    "positions": "positions",
    "kv_indices": "KV indices",
    "kv_mask": "attention masks",
    "kv_rotation": "KV rotation matrices",
    "output_ids": "output ids",
    "recurrent_ids": "recurrent-state ids",
    "expert_ids": "expert ids",
    "expert_out": "expert outputs",
    "logits": "logits",
    "sampling": "sampling candidates",
    "draft_hidden": "hidden states for the draft head",
    "recurrent_state": "recurrent state",
    "kv_state": "KV state",
    "copy": "copies on the worker",
    "other_input": "other inputs",
    "unknown": "frames of unknown role",
}
_NAMED_ROLES = 4
#: How much longer requests lived together than time passed, to say that they ran side by side.
_SIDE_BY_SIDE = 1.1
#: Bytes of a load from which its rate says something.
_RATE_FROM = 1_000_000
#: What a round-trip time was measured by.
_SOURCES = {"rpc": "RPC's own answers", "tcp": "TCP's acknowledgements"}
#: SSH and its usual substitutes: what is seen of a tunnel from outside.
_TUNNELS = (22, 2222, 443, 51820)


def summary(analysis: Analysis) -> list[str]:
    """Paragraphs that answer: what a token costs, and on what it is spent."""
    if not analysis.connections:
        return _nothing(analysis)
    lines = [_what(analysis)]
    token = analysis.per_token
    if token.tokens:
        lines += [_cost(analysis, token), _time(token), _bytes(analysis, token)]
    elif analysis.requests:
        lines.append(
            "No token was generated after a prompt, so there is no cost per token; "
            f"{_prompts(analysis)}."
        )
    else:
        lines.append(_load(analysis))
    return [line for line in lines if line]


def _what(analysis: Analysis) -> str:
    protocols = sorted({_protocol(w, analysis) for w in analysis.workers})
    workers = ", ".join(w.server for w in analysis.workers[:3])
    more = len(analysis.workers) - 3
    text = (
        f"llama.cpp RPC {', '.join(protocols)} with {plural(len(analysis.workers), 'worker')} "
        f"({workers}{f' and {more} more' if more > 0 else ''}): "
        f"{bytes_text(analysis.capture.stream_bytes)} {_when(analysis)}"
    )
    if not analysis.requests:
        return f"{text}; no pass of a model."
    prompt = sum(r.prompt_tokens for r in analysis.requests)
    generated = sum(r.generated_tokens for r in analysis.requests)
    text += (
        f"; {plural(len(analysis.requests), 'request')}, {plural(prompt, 'prompt token')} computed "
        f"and {generated:,} generated"
    )
    drafted = sum(r.draft_tokens or 0 for r in analysis.requests)
    if drafted:
        accepted = sum(r.accepted_tokens or 0 for r in analysis.requests)
        text += f", {accepted:,} of {drafted:,} drafted tokens accepted"
    return f"{text}."


def _protocol(worker: WorkerInfo, analysis: Analysis) -> str:
    """Version of a worker, and whether it said so itself."""
    if worker.protocol == "none":
        return "without HELLO (a build before 1.0.0)"
    said = any(
        c.protocol_source == "hello"
        for c in analysis.connections
        if (c.server, c.protocol) == (worker.server, worker.protocol)
    )
    return worker.protocol if said else f"{worker.protocol} (inferred)"


def _cost(analysis: Analysis, token: PerToken) -> str:
    text = (
        f"Each generated token costs {bytes_text(token.bytes_up)} up, "
        f"{bytes_text(token.bytes_down)} down, {trips_text(token.round_trips)}"
    )
    if token.ms:
        text += (
            f" and {ms_text(token.ms)} ({number_text(1e3 / token.ms)} tokens/s{_beside(analysis)})"
        )
    return text + "."


def _beside(analysis: Analysis) -> str:
    """Where requests ran side by side: what they got together."""
    starts = [(r.start_s + (r.prefill_s or 0.0), r.decode_s) for r in analysis.requests]
    spans = sorted((begin, begin + lived) for begin, lived in starts if lived)
    united = until = 0.0
    for begin, end in spans:
        united += max(0.0, end - max(begin, until))
        until = max(until, end)
    lived = sum(end - begin for begin, end in spans)
    if not united or lived < _SIDE_BY_SIDE * united:
        return ""
    together = number_text(analysis.per_token.tokens / united)
    return f" per request, {together} in all: they ran side by side"


def _time(token: PerToken) -> str:
    if not token.ms:
        return ""
    if token.server_ms is None:
        return (
            "How its time is split between client, network and worker cannot be told: nothing in "
            "the capture shows the round-trip time."
        )
    parts = (
        (token.server_ms, "the workers", ""),
        (token.network_ms, "the network", _round_trip(token)),
        (token.client_ms, "the client", ""),
    )
    shares = ", ".join(
        f"{share_text(ms or 0.0, token.ms)} {who} ({ms_text(ms)}{more})" for ms, who, more in parts
    )
    return f"Its time: {shares}."


def _round_trip(token: PerToken) -> str:
    if token.rtt_ms is None:
        return ""
    return f", round trip {ms_text(token.rtt_ms)} by {_SOURCES[token.rtt_source or 'tcp']}"


def _bytes(analysis: Analysis, token: PerToken) -> str:
    total = (token.bytes_up or 0) + (token.bytes_down or 0)
    ranked = sorted(analysis.roles, key=lambda r: -(r.bytes_per_token or 0))
    named = [r for r in ranked[:_NAMED_ROLES] if (r.bytes_per_token or 0) >= 0.01 * total > 0]
    if not named:
        return ""
    parts = [f"{share_text(r.bytes_per_token or 0, total)} {ROLE_WORDS[r.role]}" for r in named]
    rest = total - sum(r.bytes_per_token or 0 for r in named)
    if rest >= 0.01 * total:
        parts.append(f"{share_text(rest, total)} all else")
    return f"Its bytes: {', '.join(parts)}."


def _when(analysis: Analysis) -> str:
    """How long it took, or which part of the capture is meant."""
    capture = analysis.capture
    since = until = ""
    if capture.since_s is not None and capture.since_s > 0:
        since = f"{capture.since_s:.3f} s"
    if capture.until_s is not None and capture.until_s < capture.duration_s:
        until = f"{capture.until_s:.3f} s"
    if not since and not until:
        return f"in {seconds_text(capture.duration_s)}"
    since, until = since or "the start", until or "the end"
    return f"from {since} to {until}"


def _prompts(analysis: Analysis) -> str:
    took = sum(r.prefill_s or 0 for r in analysis.requests)
    if not took:
        return "the capture ends before the prompt does"
    return f"prompts took {seconds_text(took)} in all"


def _load(analysis: Analysis) -> str:
    load = analysis.phases["load"]
    weights = next((r.bytes_up for r in analysis.roles if r.role == "weights"), 0)
    hashed = next((c.count for c in analysis.commands if c.command == "SET_TENSOR_HASH"), 0)
    text = f"The load sent {bytes_text(load.bytes_up)} up"
    if weights:
        text += f", {bytes_text(weights)} of it weights"
    if load.duration_s and load.bytes_up >= _RATE_FROM:
        rate = load.bytes_up * 8 / load.duration_s / 1e6
        text += f", in {seconds_text(load.duration_s)} ({number_text(rate)} Mbit/s)"
    if hashed:
        text += f"; {plural(hashed, 'tensor')} {'was' if hashed == 1 else 'were'} offered by hash"
    return text + ". No tokens were computed: record a prompt too to see what one costs."


def _nothing(analysis: Analysis) -> list[str]:
    capture = analysis.capture
    if not capture.packets:
        return ["The capture holds no packets."]
    if capture.narrowed and not capture.other_connections:
        if (capture.until_s or 0) < 0:
            found = "The window ends before the capture begins."
        elif (capture.since_s or 0) > capture.duration_s:
            length = seconds_text(capture.duration_s)
            found = f"The window begins {capture.since_s:.3f} s into a capture of {length}."
        else:
            found = f"No ggml RPC frame began in the window {_when(analysis)}."
        return [f"{found} 'rpcwire analyze' without --since and --until shows when requests ran."]
    found = (
        f"No ggml RPC was found in {plural(capture.packets, 'packet')} "
        f"({bytes_text(capture.wire_bytes)}, {seconds_text(capture.duration_s)})."
    )
    if not capture.other_connections:
        return [
            found + " There is no TCP payload in it at all.",
            "Capture on the interface that carries the traffic: lo for a worker on this machine "
            "or behind an SSH tunnel, else the one with the route to the worker.",
        ]
    largest = ", ".join(f"{o.client} > {o.server} ({bytes_text(o.bytes)})" for o in analysis.others)
    lines = [
        f"{found} It holds {plural(capture.other_connections, 'other TCP connection')}"
        + (f": {largest}." if largest else ".")
    ]
    if any(_port(end) in _TUNNELS for o in analysis.others for end in (o.client, o.server)):
        lines.append(
            "Traffic inside a tunnel (SSH, WireGuard, TLS) cannot be read from outside: capture on "
            "lo, at the end of the tunnel where llama-server or rpc-server runs."
        )
    lines.append(
        "If -p was given, leave it out: RPC is found on any port. Else begin the capture before "
        "llama-server starts, or while it generates, on the interface that leads to the worker."
    )
    return lines


def _port(end: str) -> int:
    return int(end.rpartition(":")[2])

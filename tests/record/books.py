"""The books and the meaning of a capture, as plain values that can be compared."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from rpcwire.capture.reader import read_segments
from rpcwire.session import Session

#: What has to agree between a capture and its slim form.
PARTS = ("phases", "roles", "trips", "requests", "streams", "frames")


def books(capture: Any) -> dict[str, Any]:
    """Everything that is read off a capture (a path, or its bytes)."""
    frames: list[Any] = []
    session = Session(on_frame=frames.append)
    reader = read_segments([BytesIO(capture) if isinstance(capture, bytes) else capture])
    for batch in reader:
        session.feed(batch)
    session.finish()
    totals = session.run.totals
    return {
        "phases": {k: (t.up, t.down, t.frames) for k, t in totals.by_phase().items()},
        "roles": {k: (t.up, t.down, t.frames) for k, t in totals.by_role().items()},
        "trips": {
            k: (totals.by_phase()[k].round_trips, p.passes, p.rows, p.duration_ns)
            for k, p in totals.phases.items()
        },
        "requests": [
            (r.prompt_tokens, r.generated_tokens, r.draft_tokens, r.accepted_tokens, r.passes,
             r.start_ns, r.end_ns, r.inferred)
            for r in session.run.requests
        ],
        "streams": [
            ([h.next for h in c.tcp.sides], [h.missing for h in c.tcp.sides], c.recognised,
             c.protocol, c.undecoded)
            for c in session.connections.values()
        ],
        "frames": [
            (f.direction, f.command, f.time_ns, f.end_ns, f.role, f.phase, f.bytes, f.missing,
             f.pass_id, f.trip)
            for f in frames
        ],
        "truncated": sum(
            h.truncated for c in session.connections.values() for h in c.tcp.sides
        ),
        "health": reader.health,
    }  # fmt: skip

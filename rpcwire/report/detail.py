"""Sections that go into detail: single tokens frame by frame, and response times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcwire.output.markup import Markup, element, joined
from rpcwire.output.plot_times import Spread, times_figure
from rpcwire.output.units import ms_text
from rpcwire.report import html
from rpcwire.report.lanes import Server, exclusive, lanes
from rpcwire.report.times import edge_ms
from rpcwire.seen import endpoint

if TYPE_CHECKING:
    from rpcwire.report.gather import RunReport
    from rpcwire.report.samples import Exchange, Sample

_KINDS = {"decode": "Tokens", "verify": "Rounds of drafts", "prefill": "Batches of a prompt"}
_FRAME_HEAD = ("packet", "command", "tensor", "role", "phase", "worker", "up", "down", "sent at",
               "answered after")  # fmt: skip
_BUTTONS = (
    ("in", "Zoom in"), ("out", "Zoom out"), ("earlier", "Earlier"), ("later", "Later"),
    ("whole", "All of it"),
)  # fmt: skip
_HELP = (
    "Zoom with + and −, with Ctrl and the wheel, or the wheel alone once the picture has the "
    "focus; move with ← and → or by dragging, go through frames with ↑ and ↓, see all of it with "
    "0."
)
_LEGEND = (
    ("client", "client"), ("up", "wire, up"), ("down", "down"),
    ("worker", "worker; thin: a request waits for its response"),
)  # fmt: skip


class _Strings:
    """Words that are told by their number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, words: str) -> int:
        found = self._places.get(words)
        if found is None:
            found = self._places[words] = len(self.all)
            self.all.append(words)
        return found


def waterfall(run: RunReport, prefix: str, level: int) -> Markup:
    """Single tokens: client, wire and workers, every frame with its tensor."""
    chosen = run.evidence.sampler.chosen()
    title = "One token, frame by frame"
    if not chosen:
        words = "The capture holds no pass of a model, so there is no token to look at."
        return html.section(f"{prefix}waterfall", title, element("p", words), level=level)
    ways, strings = _ways(run), _Strings()
    first_ns = run.facts.health.first_ns or 0
    samples = [_sample(name, sample, ways, strings, first_ns) for name, sample in chosen]
    name = f"{prefix}wf"
    body = element(
        "div",
        _controls(name, chosen),
        element("p", samples[0]["said"], class_="said"),
        element(
            "div",
            element("div", class_="wf-head"),
            element("div", class_="wf-body", tabindex=0, role="group", aria_label="Frames"),
            class_="wf-chart",
            tabindex=0,
            role="group",
            aria_label="Waterfall of the chosen token",
            aria_describedby=f"{name}-help",
            hidden=True,
        ),
        _legend(),
        element("p", _HELP, class_="help", id=f"{name}-help", hidden=True),
        element("p", class_="detail", aria_live="polite"),
        element(
            "details",
            element("summary", "The frames as a table"),
            html.table(
                "Frames of the chosen token", _FRAME_HEAD, _rows(chosen[0][1]), name=f"{name}-rows"
            ),
        ),
        html.data(f"{name}-data", {"strings": strings.all, "samples": samples}),
        class_="waterfall",
        id=name,
    )
    words = (
        "From the first byte of a pass to that of the next. Workers compute from a graph's last "
        "byte to the first byte of the response that waits for it, less the way there and back; "
        "what neither they nor the wire need is the client's."
    )
    return html.section(f"{prefix}waterfall", title, element("p", words), body, level=level)


def _controls(name: str, chosen: list[tuple[str, Sample]]) -> Markup:
    groups: dict[str, list[Markup]] = {}
    for place, (which, sample) in enumerate(chosen):
        words = f"{which}: {ms_text(sample.duration_ns / 1e6)} (pass {sample.pass_id})"
        groups.setdefault(_KINDS[sample.kind], []).append(element("option", words, value=place))
    options = [element("optgroup", *some, label=label) for label, some in groups.items()]
    select = element("select", *options, id=f"{name}-which")
    buttons = [element("button", words, type="button", data_do=what) for what, words in _BUTTONS]
    return element(
        "div",
        element("label", "Which: ", for_=f"{name}-which"),
        select,
        joined(*buttons),
        class_="controls",
        hidden=True,
    )


def _legend() -> Markup:
    items = [
        element("li", element("span", class_=f"swatch {colour}", aria_hidden="true"), words)
        for colour, words in _LEGEND
    ]
    return element("ul", *items, class_="legend", hidden=True)


def _ways(run: RunReport) -> dict[Server, int]:
    """By worker, nanoseconds from the capture point to it and back."""
    total = {w.server: (w.rtt_ms or 0.0) * 1e6 for w in run.analysis.workers}
    nearer: dict[Server, int] = {}
    for c in run.facts.connections:
        to_client = c.rtt_ns(1 - c.rpc.client_side)
        if to_client:
            nearer[c.rpc.server] = min([nearer.get(c.rpc.server, to_client[0]), *to_client])
    servers = {c.rpc.server for c in run.facts.connections}
    return {s: max(0, int(total.get(endpoint(s), 0.0)) - nearer.get(s, 0)) for s in servers}


def _sample(
    name: str, sample: Sample, ways: dict[Server, int], strings: _Strings, first_ns: int
) -> dict[str, Any]:
    """A sample for the page's script; times in µs from its start."""
    rows = lanes(sample, ways)
    client, wire, workers = (ns / 1e6 for ns in exclusive(rows, sample.duration_ns))
    said = (
        f"{_KINDS[sample.kind]}, {name}: pass {sample.pass_id}, "
        f"{sample.rows} row{'' if sample.rows == 1 else 's'}, at second "
        f"{(sample.start_ns - first_ns) / 1e9:.3f}, {ms_text(sample.duration_ns / 1e6)}: "
        f"client {ms_text(client)}, wire {ms_text(wire)}, workers {ms_text(workers)}; "
        f"{len(sample.exchanges):,} requests."
    )
    if sample.left_off:
        said += f" {sample.left_off:,} more are not shown."

    def at(ns: int) -> float:
        return -1 if ns < 0 else round((ns - sample.start_ns) / 1e3, 1)

    return {
        "said": said,
        "length": max(1.0, round(sample.duration_ns / 1e3, 1)),
        "lanes": [
            [lane.label, lane.kind, [round(ns / 1e3, 1) for span in lane.intervals for ns in span]]
            for lane in rows
        ],
        "frames": [
            [
                e.number,
                strings.place(e.command),
                strings.place(_tensor(e)),
                strings.place(e.role),
                strings.place(e.phase),
                strings.place(_worker(e)),
                e.up_bytes,
                at(e.up_ns[0]),
                at(e.up_ns[1]),
                e.down_bytes,
                at(e.down_ns[0]),
                at(e.down_ns[1]),
                e.missing,
            ]
            for e in sorted(sample.exchanges, key=_begin)
        ],
    }


def _begin(e: Exchange) -> int:
    return e.up_ns[0] if e.up_ns[0] >= 0 else e.down_ns[0]


def _tensor(e: Exchange) -> str:
    return " ".join(part for part in (e.tensor, e.type, e.shape) if part)


def _worker(e: Exchange) -> str:
    return endpoint(e.server) + (f" device {e.device}" if e.device else "")


def _rows(sample: Sample) -> list[tuple[Any, ...]]:
    """The table of a sample, as it is without the page's script (which does the same)."""
    rows = []
    for e in sorted(sample.exchanges, key=_begin):
        waited = None
        if e.down_ns[0] >= 0 and e.up_ns[1] >= 0:
            waited = max(0, e.down_ns[0] - e.up_ns[1]) / 1e6
        sent = (_begin(e) - sample.start_ns) / 1e6
        rows.append(
            (
                html.Cell(f"{e.number:,}", e.number),
                e.command,
                _tensor(e),
                e.role,
                e.phase,
                _worker(e),
                html.Cell(f"{e.up_bytes:,}", e.up_bytes),
                html.Cell(f"{e.down_bytes:,}", e.down_bytes),
                html.Cell(f"{sent:.3f} ms", sent),
                html.Cell("-" if waited is None else f"{waited:.3f} ms", waited or 0),
            )
        )
    return rows


def response_times(run: RunReport, prefix: str, level: int) -> Markup:
    """How long responses took, by command, and tokens."""
    times = {c.command: c.response_ms for c in run.analysis.commands}
    rows: list[Sequence[html.Entry]] = [
        (
            element("code", c.command),
            html.count(c.count),
            html.size(c.bytes_up),
            html.size(c.bytes_down),
            *(html.ms((c.response_ms or {}).get(key)) for key in ("min", "median", "p95", "max")),
        )
        for c in run.analysis.commands
    ]
    spreads = []
    for command, histogram in run.evidence.times.commands.items():
        first, stop = histogram.filled()
        known = times.get(command)
        if stop > first and known is not None:
            edges = [edge_ms(i) for i in range(first, stop + 1)]
            counts = histogram.counts[first:stop]
            spreads.append(Spread(command, edges, counts, known["median"], known["p95"]))
    head = ("command", "requests", "up", "down", "least", "median", "95 %", "most")
    return html.section(
        f"{prefix}times",
        "Response times",
        element("p", "From a request's last byte to its response's first, as captured."),
        html.figure(
            f"{prefix}spread", lambda width: times_figure(spreads, "By command", width)
        ) if spreads else None,
        html.table("Commands", head, rows),
        level=level,
    )  # fmt: skip

"""`rpcwire predict`: what a split will cost on a link, before there is hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rpcwire.cli.options import FILE
from rpcwire.errors import UsageError

if TYPE_CHECKING:
    from rpcwire.links.catalogue import Link
    from rpcwire.predict.prediction import LinkResult, Prediction
    from rpcwire.predict.recorded import Recorded


class _LlamaFlags(click.Command):
    """A command that leaves flags it does not know to llama.cpp's own parser, in order."""

    ignore_unknown_options = True
    allow_interspersed_args = True


@click.command(
    "predict",
    cls=_LlamaFlags,
    context_settings={"help_option_names": ["--help"]},
    options_metavar="[OPTIONS] [LLAMA-SERVER'S FLAGS]",
)
@click.option("--link", "links", multiple=True, metavar="NAME", help="A link of the catalogue.")
@click.option("--rtt", metavar="TIME", help="Round trip as ping reports it: the only link.")
@click.option("--bandwidth", metavar="RATE", help="Rate as iperf3 reports it, with --rtt.")
@click.option("--tunnel", type=click.Choice(["ssh", "wireguard"]), help="A tunnel over it.")
@click.option("--protocol", metavar="V", help="Of the RPC servers: 7.0, 3.6, none (default 7.0).")
@click.option("--build", metavar="NAME", help="Build of the client, for its graphs.")
@click.option("--prompt", type=int, metavar="N", help="Prompt tokens (default 512).")
@click.option("--depth", type=int, metavar="N", help="Tokens already in the KV cache.")
@click.option("--gpu", "gpus", multiple=True, metavar="DEV=NAME", help="For example RPC0=rtx-3090.")
@click.option("--membw", multiple=True, metavar="DEV=GB/s", help="Memory bandwidth of a device.")
@click.option("--baseline", type=float, metavar="T/S", help="Tokens/s without the network.")
@click.option("--acceptance", type=float, metavar="P", help="Accepted part of drafts, 0 to 1.")
@click.option("--quant", default="q4_k_m", metavar="Q", help="Assumed for a config.json.")
@click.option(
    "--min-tps", type=float, metavar="T", help="Exit 1 where a link gives fewer tokens/s."
)
@click.option(
    "--plot", type=click.Path(dir_okay=False), metavar="OUT", help="A chart, .svg or .png."
)
@click.option("--from", "capture", type=FILE, metavar="CAPTURE", help="Start from a recorded run.")
@click.option("--json", "as_json", is_flag=True, help="The document instead of words.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(  # noqa: PLR0917 - one parameter an option
    ctx: click.Context,
    links: tuple[str, ...],
    rtt: str | None,
    bandwidth: str | None,
    tunnel: str | None,
    protocol: str | None,
    build: str | None,
    prompt: int | None,
    depth: int | None,
    gpus: tuple[str, ...],
    membw: tuple[str, ...],
    baseline: float | None,
    acceptance: float | None,
    quant: str,
    min_tps: float | None,
    plot: str | None,
    capture: str | None,
    as_json: bool,
    flags: tuple[str, ...],
) -> None:
    """Predict what a split over RPC costs on a link.

    Takes llama-server's own flags (-m, --rpc, -dev, -ts, -ngl, -ot, -c, -ub, -ctk, -np,
    --spec-type …) with their own meaning, or a whole command line of llama-server, llama-cli or
    llama-bench after --. The model is a GGUF file, the beginning of one, an http(s) address of
    one, or a Hugging Face config.json.
    """
    options = Options(
        chosen_links=links,
        rtt=rtt,
        bandwidth=bandwidth,
        tunnel=tunnel,
        protocol=protocol,
        build=build,
        prompt=prompt,
        depth=depth,
        gpus=gpus,
        membw=membw,
        baseline=baseline,
        acceptance=acceptance,
        quant=quant,
        capture=capture,
        flags=flags,
    )
    if min_tps is not None and not 0 < min_tps < 1e9:
        raise UsageError("--min-tps must be a positive number of tokens/s")
    status = _run(options, min_tps, plot, as_json)
    if status:
        ctx.exit(status)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said, apart from what to write."""

    chosen_links: tuple[str, ...]
    rtt: str | None
    bandwidth: str | None
    tunnel: str | None
    protocol: str | None
    build: str | None
    prompt: int | None
    depth: int | None
    gpus: tuple[str, ...]
    membw: tuple[str, ...]
    baseline: float | None
    acceptance: float | None
    quant: str
    capture: str | None
    flags: tuple[str, ...]


def _run(options: Options, min_tps: float | None, plot: str | None, as_json: bool) -> int:
    recorded = _recorded(options.capture) if options.capture is not None else None
    if recorded is not None and not options.flags:
        return _replay(recorded, options, min_tps, plot, as_json)
    prediction = _predict(options, recorded)
    for line in prediction.warnings:
        click.echo(f"rpcwire: {line}", err=True)
    if plot is not None:
        from rpcwire.output.predict_plot import write_plot

        write_plot(prediction, plot)
    if as_json:
        import json

        from rpcwire.output.predict_json import prediction_document

        click.echo(json.dumps(prediction_document(prediction), indent=1, allow_nan=False))
    else:
        from rpcwire.output.predict_text import prediction_text

        click.echo(prediction_text(prediction), nl=False)
    if min_tps is None:
        return 0
    return _check(prediction.links, min_tps, options)


def _recorded(capture: str) -> Recorded:
    """Averages of a recorded run."""
    from rpcwire.analysis import analyze
    from rpcwire.predict.recorded import UploadRate, averages
    from rpcwire.reading import Reading

    uploads = UploadRate()
    Reading(capture, on_frame=uploads.frame).run()
    return averages(analyze(capture), uploads.rate)


def _replay_links(recorded: Recorded, options: Options) -> list[Link]:
    """The links asked for; `recorded` is the capture's own, which leads the catalogue."""
    from dataclasses import replace

    if options.rtt is not None:
        return _links(options)
    own = recorded.link()
    if not options.chosen_links:
        return [*([] if own is None else [own]), *_links(options)]
    found: list[Link] = []
    for name in options.chosen_links:
        if name != "recorded":
            found += _links(replace(options, chosen_links=(name,)))
        elif own is None:
            raise UsageError("--link recorded: its round trip cannot be told from the capture")
        else:
            found.append(own)
    return found


def _replay(
    recorded: Recorded, options: Options, min_tps: float | None, plot: str | None, as_json: bool
) -> int:
    from rpcwire.predict.recorded import replay

    without = {
        "--gpu": options.gpus,
        "--membw": options.membw,
        "--baseline": options.baseline,
        "--acceptance": options.acceptance,
        "--prompt": options.prompt,
        "--depth": options.depth,
        "--protocol": options.protocol,
        "--build": options.build,
    }
    useless = [flag for flag, value in without.items() if value]
    if useless:
        raise UsageError(f"{useless[0]} needs -m: a recording alone is replayed as it is")
    results = replay(recorded, _replay_links(recorded, options))
    if plot is not None:
        from rpcwire.output.plot import write_figure
        from rpcwire.output.plot_bars import link_figure

        write_figure(link_figure(results), plot)
    if as_json:
        import json

        from rpcwire.output.predict_json import recorded_document

        click.echo(json.dumps(recorded_document(recorded, results), indent=1, allow_nan=False))
    else:
        from rpcwire.output.replay_text import recorded_text

        click.echo(recorded_text(recorded, results), nl=False)
    return 0 if min_tps is None else _check(results, min_tps, options)


def _predict(options: Options, recorded: Recorded | None) -> Prediction:
    from rpcwire.models.flags import parse_command_line
    from rpcwire.models.load import load_model
    from rpcwire.predict.hardware import check_devices, read_hardware
    from rpcwire.predict.prediction import predict
    from rpcwire.predict.scenario import SIMPLE, make_scenario, spec_types

    flags = parse_command_line(options.flags)
    if flags.model is None:
        named = {"-hf", "-hfr", "--hf-repo", "-mu", "--model-url"} & set(flags.ignored)
        hint = f" ({', '.join(named)} is not followed)" if named else ""
        raise UsageError(f"no model: give -m FILE, an address, or a config.json{hint}")
    if recorded is not None and not flags.rpc:
        flags.rpc.extend(recorded.endpoints)
    if options.acceptance is not None and not 0 <= options.acceptance <= 1:
        raise UsageError("--acceptance is a part: 0 to 1")
    links = _links(options)
    baseline, protocol = options.baseline, options.protocol
    if recorded is not None and baseline is None and recorded.token.computing_ms:
        baseline = 1e3 / recorded.token.computing_ms
    if recorded is not None and protocol is None and recorded.protocol[:1].isdigit():
        protocol = recorded.protocol.partition(",")[0].partition("-")[0].strip()
    hardware = read_hardware(options.gpus, options.membw, baseline)
    draft = None
    if flags.draft_model is not None and SIMPLE in spec_types(flags):
        draft = load_model(flags.draft_model, options.quant)
    scenario = make_scenario(
        load_model(flags.model, options.quant),
        flags,
        protocol=protocol,
        build=options.build,
        local=hardware.local,
        prompt=options.prompt,
        depth=options.depth,
        draft=draft,
    )
    check_devices(hardware, [device.name for device in scenario.placement.devices])
    return predict(scenario, hardware, links, options.acceptance)


def _links(options: Options) -> list[Link]:
    from rpcwire.links.catalogue import catalogue, find_link, given_link, tunnelled

    if options.rtt is not None:
        if options.chosen_links:
            click.echo("rpcwire: --rtt replaces --link: it is the only link", err=True)
        return [given_link(options.rtt, options.bandwidth, options.tunnel)]
    if options.bandwidth is not None:
        raise UsageError("--bandwidth needs --rtt")
    found = [find_link(name) for name in options.chosen_links] or catalogue()
    return [tunnelled(link, options.tunnel) for link in found] if options.tunnel else found


def _check(results: list[LinkResult], least: float, options: Options) -> int:
    """Exit status of --min-tps: each link asked for must reach it; of the catalogue, one."""
    every = bool(options.chosen_links or options.rtt)
    speeds = [
        result.tokens_per_s[1] if result.tokens_per_s else result.ceiling for result in results
    ]
    reached = [speed >= least for speed in speeds]
    if all(reached) if every else any(reached):
        return 0
    slow = [r.link.name for r, ok in zip(results, reached, strict=True) if not ok]
    click.echo(f"rpcwire: fewer than {least:g} tokens/s on {', '.join(slow)}", err=True)
    return 1

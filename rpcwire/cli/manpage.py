"""Man pages, made of the command line's own help."""

from __future__ import annotations

import re

import click

from rpcwire import __version__
from rpcwire.cli.commands import COMMANDS
from rpcwire.cli.run import group

_STATUSES = (
    ("0", "Done."),
    ("1", "A check that was asked for failed (--fail-on, --min-tps)."),
    ("2", "Bad input, bad usage or a missing right; one line on standard error says which."),
)


def pages() -> dict[str, str]:
    """Text of each page by file name: rpcwire.1 and one for each command."""
    context = click.Context(group, info_name="rpcwire")
    made = {"rpcwire.1": _overview(context)}
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        made[f"rpcwire-{name}.1"] = _page(command, click.Context(command, context, name))
    return made


def _overview(context: click.Context) -> str:
    what = (group.help or "").strip()
    lines = [*_head("rpcwire", what), ".B rpcwire", r"\fICOMMAND\fR [\fIARGS\fR]..."]
    lines += [".SH DESCRIPTION", _text(what), ".SH COMMANDS"]
    for name, (_, does) in COMMANDS.items():
        lines += [".TP", rf"\fBrpcwire\-{_text(name)}\fR(1)", _text(does)]
    lines += _options(group, context) + _statuses()
    others = ", ".join(rf"\fBrpcwire\-{_text(name)}\fR(1)" for name in COMMANDS)
    return "\n".join([*lines, ".SH SEE ALSO", others, ""])


def _page(command: click.Command, context: click.Context) -> str:
    name = context.info_name or ""
    lines = _head(f"rpcwire-{name}", command.get_short_help_str(200))
    lines += [rf".B rpcwire {_text(name)}", _text(" ".join(command.collect_usage_pieces(context)))]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    lines += _options(command, context) + _statuses()
    return "\n".join([*lines, ".SH SEE ALSO", r"\fBrpcwire\fR(1)", ""])


def _head(title: str, what: str) -> list[str]:
    return [
        f'.TH "{title.upper()}" "1" "" "rpcwire {__version__}" "User Commands"',
        ".SH NAME",
        rf"{_text(title)} \- {_text(what.rstrip('.'))}",
        ".SH SYNOPSIS",
    ]


def _options(command: click.Command, context: click.Context) -> list[str]:
    lines = [".SH OPTIONS"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            lines += [".TP", rf"\fB{_text(record[0])}\fR", _text(record[1])]
    return lines


def _statuses() -> list[str]:
    lines = [".SH EXIT STATUS"]
    for number, meaning in _STATUSES:
        lines += [".TP", rf"\fB{number}\fR", _text(meaning)]
    return lines


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.startswith("\b"):  # click's mark for lines that stay as they are
            kept = [_text(line) for line in part.lstrip("\b\n").splitlines()]
            lines += [".PP", ".nf", *kept, ".fi"]
        else:
            lines += [".PP", _text(" ".join(part.split()))]
    return lines[1:] if lines[:1] == [".PP"] else lines


def _text(text: str) -> str:
    """Text with what roff would take for its own escaped."""
    out = text.replace("\\", r"\e").replace("-", r"\-")
    out = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in out)
    return rf"\&{out}" if out.startswith((".", "'")) else out

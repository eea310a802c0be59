"""Markup that cannot be broken by what it shows: text is escaped unless it is Markup already."""

from __future__ import annotations

import re
from html import escape

from rpcwire.output.terminal import printable

#: Characters that turn the direction of text, or are in no XML document.
_ODD = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"meta", "link", "br", "col", "hr", "input"})

Child = str | int | float | None


class Markup(str):
    """Text that is markup: it goes out as it is."""

    __slots__ = ()


def text(value: Child) -> Markup:
    """A value as the content of an element or attribute."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(_ODD.sub("?", printable(str(value)))))


def element(name: str, *children: Child, **attributes: Child | bool) -> Markup:
    """An element.

    Args:
        name: tag.
        children: what is in it; None is left out, what is not Markup is escaped.
        attributes: an underscore stands for a hyphen, a trailing one is dropped (`class_`); False
            and None are left out, True is the bare name.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(label if value is True else f'{label}="{text(value)}"')
    opening = " ".join(parts)
    if name in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(text(child) for child in children if child is not None))

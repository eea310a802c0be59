"""Which dialect a connection speaks: HELLO proposes, the stream decides."""

from __future__ import annotations

from collections import Counter

from rpcwire.ggml.credible import fits, record_plausible
from rpcwire.ggml.versions import (
    DIALECTS,
    LATEST,
    RESPONSE_HEADER,
    Dialect,
    Shape,
    announced,
    with_hello,
    without_hello,
)

#: What a response may be when more than one dialect is possible: each size, -1 for any.
Expected = frozenset[int]
_VERSION_BYTES = 3


class DialectTracker:
    """The dialects that a connection may still speak, narrowed with each frame.

    Attributes:
        candidates: the dialects that all frames so far fit, likeliest first.
        version: what HELLO's answer said, or None.
        answered: command name -> bool, where the stream contradicts the table.
        oddities: (command name, payload bytes) -> frames that no candidate explains.
    """

    def __init__(self) -> None:
        self.candidates: tuple[Dialect, ...] = with_hello()
        self.version: tuple[int, int, int] | None = None
        self.answered: dict[str, bool] = {}
        self.oddities: Counter[tuple[str, int]] = Counter()
        self.only: dict[int, Shape] | None = None
        self.best = LATEST

    def _set(self, candidates: tuple[Dialect, ...]) -> None:
        self.candidates = candidates
        self.only = candidates[0].shapes if len(candidates) == 1 else None
        # Of several rows that inferred streams fit, builds in use are likelier the recent ones;
        # what HELLO announced has the upstream row first.
        self.best = candidates[0] if self.version else candidates[-1]

    def begin(self, hello: bool) -> None:
        """The first frame of a captured start is there: is it HELLO?"""
        self._set(with_hello() if hello else without_hello())

    def hint(self, candidates: tuple[Dialect, ...]) -> None:
        """Another connection of the same worker showed what it speaks."""
        both = tuple(d for d in self.candidates if d in candidates)
        if both and self.version is None:
            self._set(both)

    def hello(self, payload: bytes) -> None:
        """HELLO was answered."""
        if len(payload) < _VERSION_BYTES:
            return
        self.version = (payload[0], payload[1], payload[2])
        self._set(announced(self.version))

    def shape(self, command: int, size: int, payload: bytes) -> tuple[Shape | None, Dialect]:
        """What a request is, narrowing the candidates by it."""
        fit = [
            d
            for d in self.candidates
            if (s := d.shapes.get(command)) is not None and fits(s, d, size, payload)
        ]
        if len(fit) > 1:
            readable = [d for d in fit if record_plausible(d.shapes[command], d, size, payload)]
            fit = readable or fit
        if fit and len(fit) < len(self.candidates):
            self._set(tuple(fit))
        if fit:
            return self.best.shapes[command], self.best
        # No candidate explains it: a fork, or a stream that HELLO misdescribes.
        known = [d for d in (self.best, *self.candidates) if command in d.shapes]
        others = [d for d in DIALECTS.values() if command in d.shapes]
        for dialect in others:
            if fits(dialect.shapes[command], dialect, size, payload):
                known = [dialect]
        name = known[0].shapes[command].name if known else f"UNKNOWN_{command}"
        self.oddities[name, size] += 1
        if not known:
            return None, self.best
        return known[0].shapes[command], known[0]

    def expected(self, command: int, shape: Shape, payload: bytes) -> tuple[Expected, bool]:
        """Payload sizes that the response to a request may have, and whether there must be one.

        An empty set means that no candidate answers the command.
        """
        override = self.answered.get(shape.name)
        if override is False:
            return frozenset(), False
        sizes: set[int] = set()
        silent = False
        for dialect in self.candidates:
            other = dialect.shapes.get(command, shape)
            if other.answered:
                sizes.add(response_size(other, payload))
            else:
                silent = True
        if override and not sizes:
            sizes = {s for s in answered_sizes(shape.name) if s >= 0}
            silent = False
        return frozenset(sizes), not silent

    def learn(self, command: int, name: str, size: int | None, payload: bytes) -> None:
        """A request turned out to be answered with `size` bytes, or (None) not to be."""
        fit = []
        for dialect in self.candidates:
            shape = dialect.shapes.get(command)
            if shape is None:
                continue
            if size is None:
                good = not shape.answered
            else:
                good = shape.answered and response_size(shape, payload) in (size, -1)
            if good:
                fit.append(dialect)
        if fit:
            if len(fit) < len(self.candidates):
                self._set(tuple(fit))
        else:
            self.answered[name] = size is not None

    @property
    def protocol(self) -> str:
        """Version as HELLO gave it, or the range that the stream fits."""
        if self.version is not None:
            return ".".join(map(str, self.version))
        upstream = [d for d in self.candidates if not d.row.fork] or list(self.candidates)
        first, last = upstream[0].protocol, upstream[-1].protocol
        return first if first == last else f"{first}-{last}"

    @property
    def source(self) -> str:
        """Where `protocol` is from: "hello" or "inferred"."""
        return "hello" if self.version is not None else "inferred"

    @property
    def notes(self) -> list[str]:
        """What the table does not explain, one line each."""
        lines = []
        fork = self.best.row.fork
        if fork:
            lines.append(f"speaks as {fork} does ({self.best.row.doc})")
        for (name, size), count in self.oddities.most_common(5):
            lines.append(
                f"{count} {name} request{'s' * (count > 1)} with {size:,} payload bytes: "
                f"not in protocol {self.protocol} (a fork?)"
            )
        for name, yes in self.answered.items():
            lines.append(
                f"{name} is {'answered' if yes else 'not answered'}, "
                f"unlike in protocol {self.protocol} (a fork?)"
            )
        return lines


def response_size(shape: Shape, payload: bytes) -> int:
    """Payload bytes of the response to a request; -1 when the request's bytes do not tell."""
    if shape.response >= 0:
        return shape.response
    at = shape.size_at
    return int.from_bytes(payload[at : at + 8], "little") if len(payload) >= at + 8 else -1


_ANSWERED: dict[str, set[int]] = {}
for _dialect in DIALECTS.values():
    for _shape in _dialect.shapes.values():
        if _shape.answered:
            _ANSWERED.setdefault(_shape.name, set()).add(_shape.response)


def answered_sizes(name: str) -> set[int]:
    """Payload sizes with which some dialect answers a command (-1: as asked for)."""
    return _ANSWERED.get(name, set())


__all__ = ["RESPONSE_HEADER", "DialectTracker", "Expected", "answered_sizes", "response_size"]

"""GGUF headers and config.json over HTTP: by ranges where the server serves them.

Only the bytes of the header are read. A server that ignores ranges is read from the start and
left as soon as the header is complete.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import TypeVar

from rpcwire.errors import ModelError
from rpcwire.models.config import MAX_CONFIG, read_config
from rpcwire.models.gguf import model_from_headers, part_names
from rpcwire.models.header import Header, ShortHeaderError, read_header
from rpcwire.models.model import Model
from rpcwire.models.quants import DEFAULT_QUANT

T = TypeVar("T")

FIRST = 1 << 20  #: bytes asked for first
MOST = 256 << 20  #: bytes of a header at most
TIMEOUT = 30.0  #: seconds without a byte
_HEADERS = {"User-Agent": "rpcwire", "Accept-Encoding": "identity"}


class _HttpOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects, at most ten, to http and https only."""

    max_redirections = 10

    def redirect_request(  # noqa: PLR0917 - the signature is urllib's
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise ModelError(f"redirected to {newurl[:60]}: only http and https are followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


class _Source:
    """The beginning of one remote file, fetched as far as it is needed."""

    def __init__(self, url: str, opener: urllib.request.OpenerDirector) -> None:
        self.url = url
        self.opener = opener
        self.data = bytearray()
        self.stream: http.client.HTTPResponse | None = None
        self.ended = False

    def extend(self, size: int) -> None:
        """Make at least `size` bytes available, or all there are."""
        if size > MOST:
            raise ModelError(f"{self.url}: its header would be larger than {MOST >> 20} MiB")
        if self.stream is None and not self.ended and len(self.data) < size:
            self._ask(len(self.data), size)
        while self.stream is not None and len(self.data) < size:
            piece = self.stream.read(min(1 << 20, size - len(self.data)))
            if not piece:
                self._close()
                self.ended = True
            self.data += piece

    def _ask(self, start: int, end: int) -> None:
        headers = {**_HEADERS, "Range": f"bytes={start}-{end - 1}"}
        response = self.opener.open(
            urllib.request.Request(self.url, headers=headers), timeout=TIMEOUT
        )
        if response.status == http.client.PARTIAL_CONTENT:
            piece = response.read(end - start)
            total = (response.headers.get("Content-Range") or "").rpartition("/")[2]
            response.close()
            self.data += piece
            self.ended = not piece or (total.isdigit() and len(self.data) >= int(total))
            return
        self.data.clear()  # the server ignores ranges: read on from its first byte
        self.stream = response

    def _close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def close(self) -> None:
        """Leave the rest of the file unread."""
        self._close()


def read_url(url: str, quant: str = DEFAULT_QUANT) -> Model:
    """Read a model from an http or https address of a GGUF file (or a part) or a config.json.

    Raises:
        ModelError: not reachable, not a model, or larger than a header may be.
    """
    opener = urllib.request.build_opener(_HttpOnly())
    path = urllib.parse.urlsplit(url).path
    if path.lower().endswith(".json"):
        return read_config(_fetch(url, opener, _whole), quant)
    names = part_names(path.rpartition("/")[2])
    if not names:
        return model_from_headers([_fetch(url, opener, _header)])
    folder = path.rpartition("/")[0]
    urls = [
        urllib.parse.urlunsplit((*_place(url), f"{folder}/{name}", *_rest(url))) for name in names
    ]
    return model_from_headers([_fetch(one, opener, _header) for one in urls])


def _place(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def _rest(url: str) -> tuple[str, str]:
    return urllib.parse.urlsplit(url).query, ""


def _fetch(url: str, opener: urllib.request.OpenerDirector, read: Callable[[_Source], T]) -> T:
    source = _Source(url, opener)
    try:
        return read(source)
    except urllib.error.HTTPError as error:
        raise ModelError(f"{url}: {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ModelError(f"{url}: {reason}") from None
    finally:
        source.close()


def _header(source: _Source) -> Header:
    wanted = FIRST
    while True:
        source.extend(wanted)
        try:
            return read_header(bytes(source.data))
        except ShortHeaderError as error:
            if source.ended:
                raise
            wanted = max(error.needed, 2 * len(source.data), FIRST)


def _whole(source: _Source) -> bytes:
    source.extend(MAX_CONFIG + 1)
    return bytes(source.data)

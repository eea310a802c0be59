"""Addresses: a server that serves ranges, one that does not, redirects, failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rpcwire.errors import ModelError
from rpcwire.models import remote
from rpcwire.models.load import load_model

from .ggufbytes import gguf
from .test_gguf import LLAMA, TABLE, split


class Server(ThreadingHTTPServer):
    files: dict[str, bytes]
    ranges = True
    sent = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
            return
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
            return
        data = self.server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        start, end = 0, len(data)
        wanted = self.headers.get("Range")
        if wanted and self.server.ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, len(data))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        try:
            for place in range(start, end, 1 << 16):
                piece = data[place : min(place + (1 << 16), end)]
                self.wfile.write(piece)
                self.server.sent += len(piece)
        except OSError:
            self.close_connection = True  # the client had enough

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(files: dict[str, bytes], ranges: bool = True) -> Iterator[tuple[str, Server]]:
    server = Server(("127.0.0.1", 0), Handler)
    server.files, server.ranges = files, ranges
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def big(words: int = 0) -> bytes:
    meta: dict[str, object] = {**LLAMA, "tokenizer.ggml.tokens": ["word"] * (words + 1)}
    return gguf(meta, TABLE) + bytes(24 << 20)


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("words", [0, 200_000])
def test_only_the_header_is_read(ranges: bool, words: int) -> None:
    with serving({"/m.gguf": big(words)}, ranges) as (url, server):
        model = load_model(f"{url}/m.gguf")
        assert (model.arch, model.layers, model.vocab_size) == ("llama", 2, 100)
    assert server.sent < 16 << 20


def test_redirects_and_parts(tmp_path: Path) -> None:
    files = {f"/d/{path.name}": path.read_bytes() for path in split(tmp_path)}
    with serving(files) as (url, _):
        model = load_model(f"{url}/moved/d/m-00001-of-00002.gguf")
        assert len(model.tensors) == len(TABLE)
        with pytest.raises(ModelError, match="away"):
            load_model(f"{url}/away")
        with pytest.raises(ModelError, match="404"):
            load_model(f"{url}/none.gguf")


def test_a_file_that_ends_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"/cut.gguf": big()[:300], "/x.gguf": bytes(500)}) as (url, _):
        with pytest.raises(ModelError, match="ends inside"):
            load_model(f"{url}/cut.gguf")
        with pytest.raises(ModelError, match="magic"):
            load_model(f"{url}/x.gguf")
    monkeypatch.setattr(remote, "MOST", 1 << 19)
    with serving({"/m.gguf": big(200_000)}) as (url, _), pytest.raises(ModelError, match="larger"):
        load_model(f"{url}/m.gguf")


def test_nobody_listens() -> None:
    with pytest.raises(ModelError):
        load_model("http://127.0.0.1:1/m.gguf")


def test_a_config_by_address() -> None:
    config = Path(__file__).parents[1] / "predict" / "published" / "qwen3-30b-a3b.json"
    with serving({"/config.json": config.read_bytes()}, ranges=False) as (url, _):
        model = load_model(f"{url}/config.json")
    assert (model.arch, model.experts, model.experts_used) == ("qwen3moe", 128, 8)

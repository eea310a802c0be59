"""A headless Chromium, driven through its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
    "--remote-allow-origins=*", "about:blank",
)  # fmt: skip
_PATIENCE = 30.0


class Browser:
    """One page of one browser.

    Attributes:
        said: what it wrote to its console, errors of any kind included.
        asked: addresses that it requested, apart from data.
    """

    def __init__(self, folder: Path) -> None:
        websocket = pytest.importorskip("websocket")
        if CHROMIUM is None:
            pytest.skip("no chromium")
        self.said: list[str] = []
        self.asked: list[str] = []
        self._number = 0
        self._process = subprocess.Popen(
            [CHROMIUM, f"--user-data-dir={folder}", *_FLAGS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._socket = websocket.create_connection(self._address(folder), timeout=_PATIENCE)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str | None = None
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(_PATIENCE)

    def _address(self, folder: Path) -> str:
        """Of the DevTools, which the browser writes to its folder."""
        place = folder / "DevToolsActivePort"
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if place.exists() and len(lines := place.read_text().split()) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            if self._process.poll() is not None:
                pytest.skip("chromium does not start here")
            time.sleep(0.05)
        raise TimeoutError("chromium opened no DevTools port")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._event(answer)

    def _event(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded":
            self.said.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(str(given["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(given["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            address = given["request"]["url"]
            if not address.startswith("data:"):
                self.asked.append(address)

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file, and wait until it is loaded."""
        self.said.clear()
        self.asked.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        until = time.monotonic() + _PATIENCE
        while self.run("document.readyState") != "complete":
            assert time.monotonic() < until
            time.sleep(0.02)
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, key: str) -> None:
        """Press and release a key."""
        words = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page to a file."""
        printed = self.call("Page.printToPDF", printBackground=True)
        path.write_bytes(base64.b64decode(printed["data"]))

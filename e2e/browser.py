"""A real browser without a window: a page is opened, asked, and everything it asks for or complains about is noted.

Goes in: a file. Comes out: a `Page` that evaluates expressions, with the requests it made, the messages of its console
and its errors. The browser is asked over the DevTools protocol.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60.0


def browser() -> str | None:
    """The browser on the PATH, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False

    async def open(self, url: str) -> None:
        """Without a network."""
        for domain in ("Network", "Runtime", "Log", "Page"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        await self.call("Page.navigate", url=url)
        while not self._loaded:
            self._note(await self._socket.receive_json())

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True
        )

    async def evaluate(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.complaints.append(str(about))
            case "Log.entryAdded":
                self.complaints.append(about["entry"]["text"])
            case "Page.loadEventFired":
                self._loaded = True


@asynccontextmanager
async def opened(program: str, url: str, folder: Path) -> AsyncIterator[Page]:
    """A page in a browser of its own, which ends with this."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    options = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking", *as_root]
    process = await asyncio.create_subprocess_exec(
        program,
        *options,
        "--remote-debugging-port=0",
        "--remote-debugging-address=127.0.0.1",
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            port = await _port(folder / "DevToolsActivePort")
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(target_info for target_info in await answer.json() if target_info["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.open(url)
                yield page
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _port(file: Path) -> int:
    """Where the browser listens, once it does."""
    while (port := _written(file)) is None:
        await asyncio.sleep(0.05)
    return port


def _written(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text.split()[0]) if "\n" in text else None

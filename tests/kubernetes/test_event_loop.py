"""Which event loop long-running commands use."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from restow.adapters import event_loop


async def _module_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.parametrize(
    ("installed", "module"), [(uvloop, "uvloop"), (None, "asyncio")], ids=["uvloop where it is", "else asyncio's"]
)
def test_the_fastest_loop_that_is_installed(monkeypatch: pytest.MonkeyPatch, installed: object, module: str) -> None:
    monkeypatch.setattr(event_loop, "find_spec", lambda name: installed)
    assert event_loop.run_event_loop(_module_of_loop()) == module

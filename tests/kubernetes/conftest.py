"""Everything here holds on either event loop that `restow run` may use."""

from __future__ import annotations

import asyncio

import uvloop

from restow.adapters.event_loop import LoopFactory


def pytest_asyncio_loop_factories() -> dict[str, LoopFactory]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

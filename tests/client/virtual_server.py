"""An embedded API server on virtual time, for tests with several clients of one cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from restow.adapters.memory import MemoryApi, ServerSettings
from restow.adapters.memory.server import DEFAULTS
from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE
from restow.sim.loop import VirtualClock, run_virtual

R = TypeVar("R")


def run_with_server(story: Callable[[MemoryApi, VirtualClock], Awaitable[R]], settings: ServerSettings = DEFAULTS) -> R:
    """Run `story` with a new server that has the namespace `shop`."""

    async def whole() -> R:
        clock = VirtualClock()
        api = MemoryApi(clock, Random(1), settings)
        await Client(api).create(NAMESPACE, {"metadata": {"name": "shop"}})
        return await story(api, clock)

    return run_virtual(whole())


def shop_pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }

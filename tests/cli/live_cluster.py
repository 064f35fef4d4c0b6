"""An API server that is served over HTTP, and commands against it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.sim.scenarios import Scenario

SCENARIO = Scenario(nodes=6, pods=30, gpu=0.0, daemon_sets=1)


@asynccontextmanager
async def served_cluster(tmp_path: Path) -> AsyncIterator[tuple[MemoryApi, Path]]:
    memory = MemoryApi(SystemClock(), random.Random(1))
    server = await serve(memory)
    try:
        yield memory, write_kubeconfig(tmp_path / "kubeconfig", server.url)
    finally:
        await server.close()


async def invoke_restow(*arguments: str | Path) -> Result:
    """Run a command in another thread, because this one serves the cluster."""
    return await asyncio.to_thread(CliRunner().invoke, restow, [str(argument) for argument in arguments])

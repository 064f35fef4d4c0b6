"""The only place that wires up what runs until it is stopped: which API server, which clock, which world.

`serve_embedded` and `run_embedded` bring a cluster along; `run_against` runs our components against somebody's cluster.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, find_config, in_cluster
from restow.adapters.kubernetes.in_cluster import is_in_cluster
from restow.defaults import HOME
from restow.running.configuration import Configuration
from restow.running.embedded import EMBEDDED, Announce, PartStopped, embedded_cluster, empty_cluster, served
from restow.running.process import Options, Process, lease_timing

NODES = 3


async def until_stopped(work: Coroutine[Any, Any, None], tell: Callable[[str], None]) -> None:
    """Do this until it ends by itself, or a signal asks it to; `tell` hears which. Raises PartStopped if it is called
    off and nobody asked for it."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    asked: set[str] = set()

    def stop(name: str) -> None:
        if not asked:
            tell(name)
        asked.add(name)
        task.cancel()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it, which means what it says
            loop.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError as problem:
        if not asked:
            raise PartStopped("everything was called off, and nobody asked for it") from problem
    finally:
        for number, handler in before.items():  # not every loop puts back what was there
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def serve_embedded(*, port: int, nodes: int, announce: Announce) -> None:
    """Serve an embedded cluster on loopback until cancelled; `announce` is told once the API answers."""
    if port:  # one in use is told before anything is built
        socket.create_server(("127.0.0.1", port)).close()
    async with embedded_cluster(nodes=nodes, rng=random.Random()) as cluster, served(cluster, port, announce):
        await asyncio.Event().wait()


def run_options(
    *,
    embedded: bool,
    components: tuple[str, ...],
    config: Path | None,
    leader_elect: bool | None,
    lease_duration: str,
    namespace: str | None,
    address: str | None,
    port: int,
) -> Options:
    """What is asked for, with what goes without saying here. Outside of a pod nobody but this machine is served.

    Raises WireError and ConfigError."""
    own = in_cluster().namespace if not embedded and is_in_cluster(os.environ) else None
    return Options(
        components=components,
        config=config,
        otherwise=EMBEDDED if embedded else Configuration(),
        namespace=namespace or own or HOME,
        leader_elect=not embedded if leader_elect is None else leader_elect,
        timing=lease_timing(lease_duration),
        host=address or ("127.0.0.1" if own is None else "0.0.0.0"),
        port=port,
    )


async def run_embedded(options: Options, *, announce: Announce) -> None:
    """Run components until cancelled against an embedded cluster, which is served on loopback as well."""
    process, rng = Process(options), random.Random()
    async with empty_cluster(nodes=NODES, rng=rng) as cluster, served(cluster, 0, announce):
        await process.run(cluster.api, SystemClock(), rng, "that is embedded")


async def run_against(kubeconfig: Path | None, options: Options) -> None:
    """Run components until cancelled against the cluster that a kubeconfig names, or that we run in."""
    process, config, clock, rng = Process(options), find_config(kubeconfig), SystemClock(), random.Random()
    async with KubernetesApi(config, clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        await process.run(api, clock, rng, config.server)

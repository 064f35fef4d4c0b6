"""Wires up what runs until it is stopped: an API server, a clock, and components or a simulated cluster.

`serve_embedded` serves an embedded cluster. `run_embedded` runs components against an embedded cluster, `run_against`
against the cluster of a kubeconfig.
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

import msgspec

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, find_config, in_cluster
from restow.adapters.kubernetes.in_cluster import is_in_cluster
from restow.defaults import HOME
from restow.running.configuration import Configuration
from restow.running.embedded_cluster import (
    EMBEDDED_CONFIGURATION,
    Announce,
    UnexpectedStop,
    embedded_cluster,
    empty_cluster,
    serve_cluster,
)
from restow.running.process import Process, ProcessOptions, lease_timing

NODES = 3


async def until_stopped(work: Coroutine[Any, Any, None], on_signal: Callable[[str], None]) -> None:
    """Run `work` until it ends, or until SIGINT, SIGTERM or SIGHUP cancels it; `on_signal` is called with the name of
    that signal. Raises UnexpectedStop if `work` is cancelled without a signal."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    received: set[str] = set()

    def stop(name: str) -> None:
        if not received:
            on_signal(name)
        received.add(name)
        task.cancel()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # ignored signals stay ignored: nohup relies on that
            loop.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError as problem:
        if not received:
            raise UnexpectedStop("cancelled without a signal") from problem
    finally:
        for (
            number,
            handler,
        ) in before.items():  # remove_signal_handler does not restore the handler from before on every loop
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def serve_embedded(*, port: int, nodes: int, announce: Announce) -> None:
    """Serve an embedded cluster on loopback until cancelled; `announce` is called once the API answers."""
    if port:  # fail early if the port is taken: building the cluster takes seconds
        socket.create_server(("127.0.0.1", port)).close()
    async with embedded_cluster(nodes=nodes, rng=random.Random()) as cluster, serve_cluster(cluster, port, announce):
        await asyncio.Event().wait()


class RunFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `restow run` as the user gave them; None where the default depends on where we run."""

    embedded: bool
    components: tuple[str, ...]
    config: Path | None
    leader_elect: bool | None
    lease_duration: str
    namespace: str | None
    address: str | None
    port: int


def run_options(flags: RunFlags) -> ProcessOptions:
    """The flags with their defaults filled in. Raises WireError and ConfigError.

    In a pod, Leases are in the pod's namespace, and health is served on all addresses, because the kubelet probes it.
    Elsewhere it is served on loopback only."""
    pod_namespace = in_cluster().namespace if not flags.embedded and is_in_cluster(os.environ) else None
    return ProcessOptions(
        components=flags.components,
        config=flags.config,
        default_configuration=EMBEDDED_CONFIGURATION if flags.embedded else Configuration(),
        namespace=flags.namespace or pod_namespace or HOME,
        leader_elect=not flags.embedded if flags.leader_elect is None else flags.leader_elect,
        timing=lease_timing(flags.lease_duration),
        host=flags.address or ("127.0.0.1" if pod_namespace is None else "0.0.0.0"),
        port=flags.port,
    )


async def run_embedded(options: ProcessOptions, *, announce: Announce) -> None:
    """Run components against an embedded cluster until cancelled; the cluster is served on loopback."""
    process, rng = Process(options), random.Random()
    async with empty_cluster(nodes=NODES, rng=rng) as cluster, serve_cluster(cluster, 0, announce):
        await process.run(cluster.api, SystemClock(), rng, "of the embedded cluster")


async def run_against(kubeconfig: Path | None, options: ProcessOptions) -> None:
    """Run components until cancelled against the cluster of a kubeconfig, or without one, as kubectl would choose."""
    process, config, clock, rng = Process(options), find_config(kubeconfig), SystemClock(), random.Random()
    async with KubernetesApi(config, clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        await process.run(api, clock, rng, config.server)

"""The only place that wires things together: which API server, which clock, which world.

`embedded_cluster` is the whole embedded system in one process; `serve_until_stopped` puts it behind HTTP for kubectl.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.adapters.rest.server import serve
from restow.client.verbs import Client
from restow.control.scheduler import Scheduler
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, STORAGE_CLASS
from restow.model.objects import Node
from restow.ports import Api, Clock
from restow.scheduling.registry import installed, read_profile
from restow.sim.world import Settings, World, default_rules

SCHEDULER_NAMES = ("restow", "volcano", "default-scheduler")
READY_SECONDS = 60.0


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster, seen from inside the process."""

    api: MemoryApi
    client: Client


@asynccontextmanager
async def embedded_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """An API server with our kinds, a world of kubelets and controllers in real time, Ready nodes, and Restow in it."""
    clock = SystemClock()
    api = MemoryApi(clock, rng)
    client = Client(api)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.create(STORAGE_CLASS, _storage_class())
    settings = Settings(start=0.3, stop=0.5)
    rules = default_rules(settings)
    async with (
        World(api, clock, random.Random(rng.getrandbits(64)), rules=rules, settings=settings) as world,
        _scheduling(api, clock, random.Random(rng.getrandbits(64))),
    ):
        width = len(str(nodes))
        for number in range(1, nodes + 1):
            await client.create(NODE, _node(f"node-{number:0{width}d}"))
        async with asyncio.timeout(READY_SECONDS):
            await world.until(lambda view: sum(map(_is_ready, view.all(NODE))) == nodes)
        yield EmbeddedCluster(api, client)


@asynccontextmanager
async def _scheduling(api: Api, clock: Clock, rng: random.Random) -> AsyncIterator[None]:
    """The scheduler runs as long as the context lasts."""
    profile = read_profile({"schedulerNames": list(SCHEDULER_NAMES)}, installed())
    running = asyncio.create_task(Scheduler(api, clock, rng, profile=profile).run(), name="scheduler")
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def serve_until_stopped(*, port: int, nodes: int, announce: Callable[[Path, str], None]) -> None:
    """Serve an embedded cluster on loopback until SIGINT or SIGTERM; `announce` is told once the API answers."""
    serving = asyncio.create_task(_serve(port, nodes, announce))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving


async def _serve(port: int, nodes: int, announce: Callable[[Path, str], None]) -> None:
    with socket.create_server(("127.0.0.1", port)) as taken:  # a port in use is told before anything is built
        port = taken.getsockname()[1]
    async with embedded_cluster(nodes=nodes, rng=random.Random()) as cluster:
        server = await serve(cluster.api, port=port)
        kubeconfig = write_kubeconfig(_folder(server.port) / "kubeconfig", server.url)
        try:
            announce(kubeconfig, server.url)
            await asyncio.Event().wait()
        finally:
            kubeconfig.unlink(missing_ok=True)
            await server.close()


def _folder(port: int) -> Path:
    """Where the kubeconfig of the server on this port goes: a folder of its own, in a path without spaces."""
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    try:
        home = home.expanduser() / "restow"
        home.mkdir(parents=True, exist_ok=True)
        usable = " " not in str(home.absolute()) and os.access(home, os.W_OK)
    except (OSError, RuntimeError):  # the latter where the user has no home at all, as in some containers
        usable = False
    return home / f"dev-{port}" if usable else Path(tempfile.mkdtemp(prefix=f"restow-dev-{port}-"))


def _storage_class() -> dict[str, Any]:
    """The class of claims that name none, so that StatefulSets with volumes just work."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "sim.restow.sh/volumes",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {**dict.fromkeys(_UNTOLD, ""), "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


_UNTOLD = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
)

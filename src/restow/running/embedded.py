"""The embedded cluster: an API server with our kinds, a world of kubelets and controllers, and Restow in it, all in one
process.

`embedded_cluster` is all of it, `empty_cluster` the same without Restow; `served` puts either behind HTTP for kubectl.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml
from prometheus_client import CollectorRegistry

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest.handler import VERSION
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.adapters.rest.server import serve
from restow.client.verbs import Client
from restow.defaults import HOME
from restow.defaults import NAME as INSTALLED
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NODE, STORAGE_CLASS
from restow.model.objects import Node
from restow.model.volumes import DEFAULT_CLASS
from restow.running.configuration import Configuration
from restow.running.installing import CONFIGURATION_KEY
from restow.running.parts import PARTS
from restow.running.posts import Post, Station, cause
from restow.running.reaching import find_namespace
from restow.sim.world import Settings, World, default_rules

Announce = Callable[[Path, str], None]
EMBEDDED = Configuration(
    scheduler={"schedulerNames": ["restow", "volcano", "default-scheduler"]},
    migration={"objectLimiters": {"workload": {"duration": "0s"}}},
)
"""Everybody's pods are ours, and nobody waits minutes to see a second move."""
READY_SECONDS = 60.0
EVENT_SECONDS = 3600.0
PACE = Settings(start=0.3, stop=0.5, protect_volumes=True)
"""Pods are Ready within a second of being bound, and gone within a second of being deleted."""


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster, seen from inside the process."""

    api: MemoryApi
    client: Client


@asynccontextmanager
async def embedded_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """An API server with our kinds, a world of kubelets and controllers in real time, Ready nodes, and Restow in it."""
    async with empty_cluster(nodes=nodes, rng=rng) as cluster:
        await _leave_configuration(cluster.client)
        own = Station(cluster.api, SystemClock(), random.Random(rng.getrandbits(64)), None)
        parts = [make(CollectorRegistry(), HOME) for make in PARTS.values()]
        posts = {part.name: Post(part, own, EMBEDDED) for part in parts}
        async with _beside(**{name: post.hold() for name, post in posts.items()}):
            yield cluster


async def _leave_configuration(client: Client) -> None:
    """Put the configuration where commands look for it."""
    await find_namespace(client, HOME)
    text = yaml.safe_dump(msgspec.to_builtins(EMBEDDED), sort_keys=False)
    document = {"metadata": {"name": INSTALLED, "namespace": HOME}, "data": {CONFIGURATION_KEY: text}}
    await client.create(CONFIG_MAP, document)


@asynccontextmanager
async def empty_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """The same without Restow: nobody schedules."""
    clock = SystemClock()
    api = MemoryApi(clock, rng, event_seconds=EVENT_SECONDS, protect_volumes=True)
    client = Client(api)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.create(STORAGE_CLASS, _storage_class())
    world = World(api, clock, random.Random(rng.getrandbits(64)), rules=default_rules(PACE), settings=PACE)
    async with _beside(world=world.run()):
        width = len(str(nodes))
        for number in range(1, nodes + 1):
            await client.create(NODE, _node(f"node-{number:0{width}d}"))
        async with asyncio.timeout(READY_SECONDS):
            await world.ready()
            await world.until(lambda view: sum(map(_is_ready, view.all(NODE))) == nodes)
        yield EmbeddedCluster(api, client)


class PartStopped(RuntimeError):
    """A part that should run as long as everything else has ended."""


@asynccontextmanager
async def _beside(**parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these beside the body. One that ends before it takes the body with it, as PartStopped."""
    body = asyncio.current_task()
    assert body is not None
    stopped: list[asyncio.Task[None]] = []

    def ended(task: asyncio.Task[None]) -> None:
        stopped.append(task)
        body.cancel()

    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not stopped:
            raise
        body.uncancel()
        problem = None if stopped[0].cancelled() else stopped[0].exception()
        raise PartStopped(f"the {stopped[0].get_name()} stopped: {cause(problem)}") from problem
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def served(cluster: EmbeddedCluster, port: int, announce: Announce) -> AsyncIterator[None]:
    """Serve a cluster on loopback while this lasts; `announce` is told where its kubeconfig is, and its address."""
    server = await serve(cluster.api, port=port)
    kubeconfig = write_kubeconfig(_folder(server.port) / "kubeconfig", server.url)
    try:
        announce(kubeconfig, server.url)
        yield
    finally:
        kubeconfig.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else keeps something there
            kubeconfig.parent.rmdir()
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
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
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
            "nodeInfo": {**dict.fromkeys(_UNTOLD, ""), **_TOLD},
        },
    }


_UNTOLD = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
)
_TOLD = {"kubeletVersion": VERSION["gitVersion"], "operatingSystem": "linux", "architecture": "amd64"}

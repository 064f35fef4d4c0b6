"""A simulated cluster for tests: an embedded API server on virtual time, the world on it, and builders of objects."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.control.scheduler import Scheduler
from restow.control.scheduler import SchedulerSettings as SchedulerSettings
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Document, Pod
from restow.ports import Api, Clock
from restow.running.component_runner import Controller
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Plugin, PreEnqueuePlugin
from restow.scheduling.registry import Profile, read_profile
from restow.sim.loop import VirtualClock, run_virtual
from restow.sim.world import Rule, Settings, World

C = TypeVar("C", bound=Controller)


def on_virtual_time(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine, which runs on virtual time."""

    @functools.wraps(story)
    def test(*args: Any, **kwargs: Any) -> None:
        run_virtual(story(*args, **kwargs))

    return test


class SimulatedCluster:
    """The cluster as a test reads and changes it."""

    def __init__(self, api: MemoryApi, world: World, clock: VirtualClock) -> None:
        self.api = api
        self.world = world
        self.clock = clock
        self.client = Client(api, manager="test")

    async def create(self, kind: Kind[Any], document: Document) -> Any:
        return await self.client.create(kind, document)

    async def pods(self, namespace: str = "default") -> list[Pod]:
        listing = await self.client.list(kinds.POD, namespace)
        return sorted(listing.items, key=lambda pod: pod.metadata.name)

    async def document(self, kind: Kind[Any], name: str, namespace: str | None = "default") -> Document:
        return await self.client.get_document(kind, name, namespace if kind.namespaced else None)

    async def patch(self, kind: Kind[Any], name: str, changes: Document, namespace: str | None = "default") -> None:
        await self.client.patch(kind, name, changes, namespace if kind.namespaced else None)

    async def delete(self, kind: Kind[Any], name: str, namespace: str | None = "default", **options: Any) -> None:
        await self.client.delete(kind, name, namespace if kind.namespaced else None, **options)

    async def allow_any_field(self, kind: Kind[Any], part: str) -> None:
        """Replace the definition of a kind by one without a schema for its spec, or for its status."""
        name = kind.qualified_name
        [version] = (await self.document(kinds.CUSTOM_RESOURCE_DEFINITION, name))["spec"]["versions"]
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"]["properties"][part] = anything
        await self.patch(kinds.CUSTOM_RESOURCE_DEFINITION, name, {"spec": {"versions": [version]}})


@asynccontextmanager
async def simulated_cluster(
    *,
    nodes: int = 3,
    seed: int = 1,
    settings: Settings | None = None,
    rules: Sequence[Rule] | None = None,
    around: Callable[[Api], Api] = lambda api: api,
) -> AsyncIterator[SimulatedCluster]:
    """A cluster of equal nodes n1, n2, ... with the whole world and the scheduler; with other rules, without the
    scheduler."""
    clock = VirtualClock()
    settings = settings or Settings()
    api = MemoryApi(clock, random.Random(seed))
    world = World(around(api), clock, random.Random(seed + 1), rules=rules, settings=settings)
    made = SimulatedCluster(api, world, clock)
    for number in range(1, nodes + 1):
        await made.create(kinds.NODE, node(f"n{number}"))
    async with AsyncExitStack() as acting:
        await acting.enter_async_context(world)
        if rules is None:
            await acting.enter_async_context(running_scheduler(around(api), clock, seed=seed + 2))
        yield made
    assert world.failures == 0


def default_profile(*plugins: Plugin) -> Profile:
    """The default profile, followed by these plugins."""
    made = read_profile({"schedulerNames": ["restow", "default-scheduler"]})
    if not plugins:
        return made
    gates = [plugin for plugin in plugins if isinstance(plugin, PreEnqueuePlugin)]
    return replace(made, engine=Engine([*made.engine.plugins, *plugins]), pre_enqueue=(*made.pre_enqueue, *gates))


@asynccontextmanager
async def running_scheduler(
    api: Api, clock: Clock, *plugins: Plugin, seed: int = 1, settings: SchedulerSettings | None = None
) -> AsyncIterator[Scheduler]:
    """A scheduler that runs and has synced."""
    async with running_component(
        Scheduler(api, clock, random.Random(seed), profile=default_profile(*plugins), settings=settings)
    ) as made:
        yield made


@asynccontextmanager
async def running_component(made: C) -> AsyncIterator[C]:
    """A component runs until the context ends."""
    task = asyncio.create_task(made.run(), name=type(made).__name__)
    ready = asyncio.create_task(made.ready(), name=f"{type(made).__name__} ready")
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        yield made
    finally:
        ready.cancel()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def pass_time(seconds: float) -> None:
    await asyncio.sleep(seconds)


def node(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: str = "110", **labels: str) -> Document:
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def template(cpu: str = "100m", *, app: str = "web", annotations: Document | None = None, **spec: Any) -> Document:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def pod(name: str, cpu: str = "100m", **spec: Any) -> Document:
    made = template(cpu, **spec)
    return {"metadata": {"name": name, "namespace": "default", **made["metadata"]}, "spec": made["spec"]}


def workload(name: str, replicas: int | None = 3, *, pods: Document | None = None, **spec: Any) -> Document:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet, depending on the kind it is created as."""
    made = pods or template(app=name)
    counted = {} if replicas is None else {"replicas": replicas}
    selector = {"matchLabels": {"app": made["metadata"]["labels"]["app"]}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**counted, "selector": selector, "template": made, **spec},
    }


def job(name: str, *, run: float = 10, exit_code: int = 0, policy: str = "Never", **spec: Any) -> Document:
    annotations = {"sim.restow.sh/run-seconds": str(run), "sim.restow.sh/exit-code": str(exit_code)}
    pods = template(app=name, annotations=annotations, restartPolicy=policy)
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": pods, **spec}}


def is_pod_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())


def condition_message(pod: Pod, kind: str) -> str:
    return next((each.message or "" for each in pod.status.conditions or () if each.type == kind), "")


def storage_class(name: str, mode: str, provisioner: str = "sim/disk") -> Document:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def new_claim(name: str, of: str = "fast", **spec: Any) -> Document:
    asked = {"requests": {"storage": "1Gi"}}
    body = {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": asked, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": body}

"""10,000 pods that take the seats of 1,000 reservations, beside the same pods where nothing is reserved.

Deciding is measured as in `bench.scheduler`: sessions over a snapshot of 5,000 nodes, no API server, pods per second of
CPU. Running is the scheduler itself on an embedded API server, in one process with it: pods bound per second of CPU,
with everything that has to be written (bindings, Events and, where there are reservations, their status) and read, from
when the scheduler is shown the pods. Half of that is the server's work, which is another process's on a cluster: what
has to hold there is measured there (`bench.reservations_online`). The two ways take turns, since the machine's pace
changes more than they differ; the best of each counts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from bench.measure import Cost, measured
from bench.report import Claim, Report, Row
from bench.workloads import node_document, nodes
from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi, ServerSettings
from restow.client.verbs import Client
from restow.control.scheduler import Scheduler, SchedulerSettings
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, NODE, POD, RESERVATION, STATEFUL_SET
from restow.model.objects import Document, Pod, Reservation
from restow.model.snapshot import Snapshot
from restow.ports import Api, Request, Response
from restow.scheduling.decisions import Assign
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.session import PendingWork, Session

NODES, RUNNING_NODES = 5_000, 500
RESERVATIONS, SEATS = 1_000, 10
PODS = RESERVATIONS * SEATS
PER_SESSION = SchedulerSettings().max_session_pods
REQUESTS = {"cpu": "100m", "memory": "256Mi"}
RESERVED, PLAIN = "reserved", "plain"
LEAST = 0.8
TURNS = 2
WAIT_SECONDS = 600.0
SETTLE_SECONDS = 3.0
"""Until a scheduler that has just begun has looked at every reservation once."""


def deciding(which: str) -> Callable[[], dict[str, float]]:
    """Decide where all pods go."""
    snapshot, pod_groups, profile = Snapshot(), PodGroupCache(), read_profile({})
    for node in nodes(NODES):
        snapshot.apply_node(node)
    if which == RESERVED:
        for number in range(RESERVATIONS):
            snapshot.apply_reservation(msgspec.convert(reservation(number, placed=True), Reservation))
    waiting = [msgspec.convert(document, Pod) for document in pods()]

    def work() -> dict[str, float]:
        placed = seated = 0
        for start in range(0, PODS, PER_SESSION):
            some = waiting[start : start + PER_SESSION]
            decisions = Session(snapshot, profile.engine, pod_groups, PendingWork(some), now=0.0).run(profile.actions)
            assigned = [decision for decision in decisions if isinstance(decision, Assign)]
            placed, seated = placed + len(assigned), seated + sum(decision.seat is not None for decision in assigned)
        return {"placed": placed, "seated": seated}

    return work


def running(which: str) -> Callable[[], dict[str, float]]:
    """Bind all pods, and mark their seats."""
    return lambda: asyncio.run(_run(which))


async def _run(which: str) -> dict[str, float]:
    api = MemoryApi(SystemClock(), random.Random(1), ServerSettings(track_fields=False))
    counting = _Counting(api)
    client = Client(api)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.create(NAMESPACE, {"metadata": {"name": "bench"}})
    for number in range(RUNNING_NODES):
        await client.create(NODE, node_document(number))
    made = [await client.create(STATEFUL_SET, _workload(number)) for number in range(RESERVATIONS)]
    owners = {reservation.metadata.name: reservation.metadata.uid for reservation in made}
    if which == RESERVED:
        for number in range(RESERVATIONS):
            await client.create(RESERVATION, reservation(number, placed=False))
        async with _scheduler(counting):
            await _until(lambda: counting.available == RESERVATIONS)
    counting.shown.clear()
    async with _scheduler(counting):
        await asyncio.sleep(SETTLE_SECONDS)
        for document in pods(owners):
            await client.create(POD, document)
        wall, cpu = time.perf_counter(), time.process_time()
        counting.shown.set()
        await _until(lambda: counting.bound == PODS)
        if which == RESERVED:
            await _until(lambda: counting.succeeded == RESERVATIONS)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"pods_per_s": PODS / wall, "pods_per_cpu_s": PODS / cpu}


class _Counting:
    """An Api that counts what is written through it, because looking would cost as much as the work, and that keeps the
    news of pods to itself until they may be shown."""

    def __init__(self, api: Api) -> None:
        self.bound = self.available = self.succeeded = 0
        self.shown = asyncio.Event()
        self.shown.set()
        self._api = api

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == POD.plural and b'"BOOKMARK"' not in event[:40]:
                await self.shown.wait()
            yield event

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        self.bound += request.subresource == "binding"
        if request.resource.plural == RESERVATION.plural and request.subresource == "status":
            self.available += b'"state":{"phase":"Available"' in request.body
            self.succeeded += b'"state":{"phase":"Succeeded"' in request.body
        return response


@asynccontextmanager
async def _scheduler(api: Api) -> AsyncIterator[None]:
    """The scheduler runs, and has begun."""
    scheduler = Scheduler(api, SystemClock(), random.Random(1), profile=read_profile({}))
    task = asyncio.create_task(scheduler.run())
    await scheduler.ready()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not holds():
            await asyncio.sleep(0.02)


# --- pods and owners --------------------------------------------------------------------------------------------------


def _template(owner: int) -> Document:
    container = {"name": "main", "image": "registry.invalid/app:1", "resources": {"requests": REQUESTS}}
    spec = {"containers": [container], "schedulerName": "restow", "terminationGracePeriodSeconds": 30}
    return {"metadata": {"labels": {"app": f"app-{owner:04d}"}}, "spec": spec}


def reservation(number: int, *, placed: bool) -> Document:
    task = {"name": "main", "replicas": SEATS, "template": _template(number)}
    owners = [{"labelSelector": {"matchLabels": {"app": f"app-{number:04d}"}}}]
    document = {
        "apiVersion": RESERVATION.api_version,
        "kind": RESERVATION.kind,
        "metadata": {"name": f"app-{number:04d}", "namespace": "bench"},
        "spec": {"tasks": [task], "owners": owners, "matchPolicy": "Fits"},
    }
    if placed:
        first = number * SEATS
        placements = [
            {"task": "main", "index": index, "nodeName": f"node-{(first + index) % NODES:05d}"}
            for index in range(SEATS)
        ]
        document["status"] = {"state": {"phase": "Available"}, "placements": placements}
    return document


def _workload(number: int) -> Document:
    """A server that collects garbage wants owners to exist."""
    template = _template(number)
    labels = template["metadata"]["labels"]
    metadata = {"name": labels["app"], "namespace": "bench"}
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def pods(owners: Mapping[str, str] | None = None) -> Iterator[Document]:
    """In the order of a queue: by age and name, so those of a workload one after the other. `owners` are the UIDs of
    workloads that exist."""
    for number in range(PODS):
        template = _template(number // SEATS)
        app = template["metadata"]["labels"]["app"]
        name, owner = f"{app}-{number:05d}", {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": app}
        metadata = {**template["metadata"], "name": name, "namespace": "bench", "uid": f"uid-{name}"}
        metadata["ownerReferences"] = [{**owner, "uid": (owners or {}).get(app, f"uid-{app}"), "controller": True}]
        yield {"metadata": metadata, "spec": template["spec"]}


# --- what comes out ---------------------------------------------------------------------------------------------------


def run() -> Report:
    decided = {which: measured(f"bench.reservations:deciding:{which}", runs=2) for which in (PLAIN, RESERVED)}
    bound = _in_turns()
    for which, seated in ((PLAIN, 0), (RESERVED, PODS)):
        if decided[which].value != {"placed": PODS, "seated": seated}:
            raise RuntimeError(f"{which}: {decided[which].value}")
    rates = {which: _rate(cost) for which, cost in decided.items()}
    rows = [
        Row(what=f"deciding, {which}", figures={"pods_per_cpu_s": rate}, ratio=rate / rates[PLAIN])
        for which, rate in rates.items()
    ]
    rows += [
        Row(what=f"running, {which}", figures=rate, ratio=rate["pods_per_cpu_s"] / bound[PLAIN]["pods_per_cpu_s"])
        for which, rate in bound.items()
    ]
    label = "deciding: share of the pods/s without reservations"
    claims = [Claim(what=label, wanted=LEAST, measured=rates[RESERVED] / rates[PLAIN])]
    name = f"{PODS:,} pods that take the seats of {RESERVATIONS:,} reservations"
    return Report(name=name, rows=rows, claims=claims)


def _in_turns() -> dict[str, dict[str, float]]:
    """Of each way the run that cost the least CPU."""
    runs = [
        (which, measured(f"bench.reservations:running:{which}").value)
        for _ in range(TURNS)
        for which in (PLAIN, RESERVED)
    ]
    return {
        which: max(
            (figures for each, figures in runs if each == which),
            key=lambda figures_of_run: figures_of_run["pods_per_cpu_s"],
        )
        for which in (PLAIN, RESERVED)
    }


def _rate(cost: Cost) -> float:
    return float(cost.value["placed"]) / cost.cpu

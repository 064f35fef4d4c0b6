"""Reservations in a simulated cluster: how to write and read them, and whether the promises about them hold."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from restow.client.verbs import Client
from restow.control.reservations import ReservationGarbageCollector, ReservationMetrics
from restow.model import kinds
from restow.model.objects import Document, Pod, Reservation
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.settings import read_reservation_settings
from restow.model.resources import (
    PODS,
    Vector,
    add_vectors,
    parse_amounts,
    pod_requests,
    subtract_vectors,
    template_requests,
)
from restow.ports import Api
from restow.scheduling.framework import SUCCESS, Cycle, PermitPlugin, Verdict, wait
from tests.sim.simulated_cluster import SimulatedCluster, pass_time, template

THEIRS = {"schedulerName": "other"}
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


def new_reservation(name: str = "r", replicas: int = 2, cpu: str = "1", **spec: Any) -> Document:
    task = {"name": "web", "replicas": replicas, "template": template(cpu)}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [task], "owners": [WEB], "matchPolicy": "Fits", **spec},
    }


async def read_reservation(it: SimulatedCluster, name: str = "r") -> Reservation:
    found: Reservation = await it.client.get(kinds.RESERVATION, name, "default")
    return found


async def phase_and_reason(it: SimulatedCluster, name: str = "r") -> tuple[str | None, str | None]:
    """The phase of a reservation and its reason."""
    state = (await read_reservation(it, name)).status.state
    return state.phase, state.reason


async def status_message(it: SimulatedCluster, name: str = "r") -> str | None:
    return (await read_reservation(it, name)).status.state.message


async def seats_by_index(it: SimulatedCluster, name: str = "r") -> dict[int, tuple[str, str | None]]:
    """The node and the recorded consumer of each seat, by index."""
    found = (await read_reservation(it, name)).status.placements or ()
    return {one.index: (one.node_name, one.pod_ref.name if one.pod_ref else None) for one in found}


@asynccontextmanager
async def running_garbage_collector(
    it: SimulatedCluster, api: Api | None = None, metrics: ReservationMetrics | None = None, **section: str
) -> AsyncIterator[None]:
    """Run the garbage collector of reservations; `section` is its configuration."""
    settings = read_reservation_settings({"gcPeriod": "5s", **section})
    collector = ReservationGarbageCollector(
        api or it.api,
        it.clock,
        random.Random(1),
        scheduler_names=frozenset({"restow"}),
        settings=settings,
        metrics=metrics,
    )
    task = asyncio.create_task(collector.run())
    await collector.ready()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


# --- promises ---------------------------------------------------------------------------------------------------------


async def pass_time_and_check_room(it: SimulatedCluster) -> None:
    """Give all components time to act; no node is over-committed by then."""
    await pass_time(3)
    assert await overcommitted_nodes(it.client) == []


async def overcommitted_nodes(client: Client) -> list[str]:
    """The nodes with pods and live reservations that request more than they offer; a seat and the pod in it count
    once."""
    pods = [one for one in (await client.list(kinds.POD)).items if takes_room(one)]
    reservations = (await client.list(kinds.RESERVATION)).items
    free: dict[str, Vector] = {
        one.metadata.name: parse_amounts(one.status.allocatable) for one in (await client.list(kinds.NODE)).items
    }
    for pod in pods:
        where = pod.spec.node_name or ""
        if where in free:
            free[where] = subtract_vectors(free[where], add_vectors(pod_requests(pod), {PODS: 1}))
    named = {(pod.metadata.annotations or {}).get("restow.sh/reservation"): pod for pod in pods}
    for one in reservations:
        sizes = {task.name: template_requests(task.template.spec) for task in one.spec.tasks or ()}
        for task, seat, node in open_seats(one):
            consumer = named.get(seat)
            if node in free and (consumer is None or consumer.spec.node_name != node):
                free[node] = subtract_vectors(free[node], add_vectors(sizes[task], {PODS: 1}))
    return [node for node, left in sorted(free.items()) if any(amount < 0 for amount in left.values())]


def takes_room(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def open_seats(one: Reservation) -> list[tuple[str, str, str]]:
    """The seats of a reservation without a recorded consumer: (task, seat, node)."""
    if is_ended(one):
        return []
    tasks = {task.name for task in one.spec.tasks or ()}
    name = f"{one.metadata.namespace}/{one.metadata.name}"
    return [
        (each.task, f"{name}/{each.task}/{each.index}", each.node_name)
        for each in one.status.placements or ()
        if each.pod_ref is None and each.task in tasks
    ]


class PermitBarrier(PermitPlugin):
    """A Permit plugin that lets every pod wait until it is lifted."""

    name: ClassVar[str] = "Barrier"

    def __init__(self) -> None:
        super().__init__()
        self.is_lifted = False

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (SUCCESS if self.is_lifted else wait()), 600.0


async def replace_task(it: SimulatedCluster, instead: str = "other") -> None:
    task = {"name": instead, "replicas": 1, "template": template("1")}
    await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [task], "minAvailable": 1}})

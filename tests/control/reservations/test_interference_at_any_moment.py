"""Interference with a reservation or its node at any moment: the outcome is defined and explained, and no room
leaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    PermitBarrier,
    new_reservation,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import nodes_by_pod, unscheduled_cluster
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    node,
    on_virtual_time,
    pass_time,
    pod,
    running_scheduler,
    template,
)

ALL = SchedulerSettings(namespace_share=100)
PAST = "2020-01-01T00:00:00Z"
ROOM = {"memory": "16Gi", "pods": "110"}
Interference = Callable[[SimulatedCluster], Awaitable[Any]]


def edit(**spec: Any) -> Interference:
    return lambda it: it.patch(kinds.RESERVATION, "r", {"spec": spec})


def retask(name: str = "web", replicas: int = 2, cpu: str = "1", **spec: Any) -> Interference:
    return edit(tasks=[{"name": name, "replicas": replicas, "template": template(cpu)}], **spec)


def change_node(**spec: Any) -> Interference:
    return lambda it: it.patch(kinds.NODE, "n1", {"spec": spec})


async def delete(it: SimulatedCluster) -> None:
    await it.delete(kinds.RESERVATION, "r")


async def make_anew(it: SimulatedCluster) -> None:
    await delete(it)
    await it.create(kinds.RESERVATION, new_reservation())


async def hand_over(it: SimulatedCluster) -> None:
    """To another scheduler and back, since the other one would be responsible otherwise."""
    await edit(schedulerName="other")(it)
    await pass_time(5)
    await edit(schedulerName=None)(it)


async def shrink(it: SimulatedCluster) -> None:
    await it.client.patch(kinds.NODE, "n1", {"status": {"allocatable": {"cpu": "1", **ROOM}}}, subresource="status")


async def lose(it: SimulatedCluster) -> None:
    await it.delete(kinds.NODE, "n1")


async def replace_node(it: SimulatedCluster) -> None:
    await lose(it)
    await it.create(kinds.NODE, node("n1"))


async def lose_and_regain(it: SimulatedCluster) -> None:
    await lose(it)
    await pass_time(5)
    await it.create(kinds.NODE, node("n1"))


async def steal(it: SimulatedCluster) -> None:
    await it.create(kinds.POD, pod("foreign", "3", app="other", schedulerName="other", nodeName="n1"))


async def forge(it: SimulatedCluster) -> None:
    annotations = {"restow.sh/reservation": "default/r/web/1"}
    await it.create(kinds.POD, pod("forged", "1", app="other", annotations=annotations))


async def flip(it: SimulatedCluster) -> None:
    """Fewer replicas, and at once as many again."""
    await retask(replicas=1)(it)
    await retask(replicas=2)(it)


INTERFERENCES = {
    "more seats than fit": (retask(replicas=4, cpu="1500m"), "Unschedulable"),
    "more seats": (retask(replicas=3), "Reserved"),
    "fewer seats": (retask(replicas=1), "Reserved"),
    "fewer seats and as many again": (flip, "Reserved"),
    "no seats": (retask(replicas=0), "Invalid"),
    "seats of another task": (retask("db"), "Reserved"),
    "larger seats": (retask(cpu="2"), "Reserved"),
    "seats larger than the node": (retask(cpu="3"), "RoomTaken"),
    "smaller seats": (retask(cpu="100m"), "Reserved"),
    "larger minAvailable": (retask(replicas=9, minAvailable=9), "Unschedulable"),
    "owners removed": (edit(owners=None), "Reserved"),
    "other owners": (edit(owners=[{"labelSelector": {"matchLabels": {"app": "db"}}}]), "Reserved"),
    "ttl shortened": (edit(ttl="1s"), "Expired"),
    "expires in the past": (edit(expires=PAST), "Expired"),
    "invalid ttl": (edit(ttl="-1s"), "Invalid"),
    "matchPolicy Template": (edit(matchPolicy="Template"), "Reserved"),
    "handed to another scheduler and back": (hand_over, "Reserved"),
    "reservation deleted": (delete, None),
    "reservation recreated": (make_anew, "Reserved"),
    "node cordoned": (change_node(unschedulable=True), "NodeUnfit"),
    "node tainted": (change_node(taints=[{"key": "a", "effect": "NoExecute"}]), "NodeUnfit"),
    "node shrinks": (shrink, "RoomTaken"),
    "node deleted": (lose, "NodeGone"),
    "node replaced": (replace_node, "Reserved"),
    "node deleted and recreated later": (lose_and_regain, "NodeGone"),
    "foreign pod takes the room": (steal, "RoomTaken"),
    "forged annotation": (forge, "Reserved"),
}
MOMENTS = ("placed", "assumed", "bound", "recorded")


async def _go_to_moment(it: SimulatedCluster, moment: str) -> None:
    """One of two seats is placed, has an assumed pod, has a bound pod, or has a recorded consumer."""
    await it.create(kinds.RESERVATION, new_reservation())
    await pass_time(3)
    if moment == "placed":
        return
    await it.create(kinds.POD, pod("a", "1"))
    await pass_time({"assumed": 1.0, "bound": 0.1, "recorded": 3.0}[moment])
    assert (await nodes_by_pod(it))["a"] == (None if moment == "assumed" else "n1")
    assert ("a" in {name for _, name in (await seats_by_index(it)).values()}) is (moment == "recorded")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("interference", "reason"), INTERFERENCES.values(), ids=INTERFERENCES)
@on_virtual_time
async def test_outcome_is_defined_whenever_it_happens(
    interference: Interference, reason: str | None, moment: str
) -> None:
    barrier = PermitBarrier()
    barrier.is_lifted = moment != "assumed"
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, barrier, settings=ALL):
            await _go_to_moment(it, moment)
            auditor.room_taken_by_others("n1")
            await interference(it)
            await pass_time(3)
            barrier.is_lifted = True
            await pass_time(12)
            assert auditor.faults == []
            if reason is not None:
                await _has_reason(it, reason, moment)
            await _all_room_is_free_at_the_end(it)
        assert auditor.faults == []


async def _has_reason(it: SimulatedCluster, reason: str, moment: str) -> None:
    """The state has a message, and this reason if no pod had come by then."""
    state = (await read_reservation(it)).status.state
    assert state.message, state
    if moment == "placed":
        assert await phase_and_reason(it) == (state.phase, reason)


async def _all_room_is_free_at_the_end(it: SimulatedCluster) -> None:
    """Once all objects are gone, all room is free."""
    for one in (await it.client.list(kinds.RESERVATION)).items:
        await it.delete(kinds.RESERVATION, one.metadata.name)
    for each in await it.pods():
        await it.delete(kinds.POD, each.metadata.name, grace_seconds=0)
    if not (await it.client.list(kinds.NODE)).items:
        await it.create(kinds.NODE, node("n1"))
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None, "taints": None}})
    await it.client.patch(kinds.NODE, "n1", {"status": {"allocatable": {"cpu": "4", **ROOM}}}, subresource="status")
    await it.create(kinds.POD, pod("whole", "4", app="other"))
    await pass_time(20)
    assert await nodes_by_pod(it) == {"whole": "n1"}

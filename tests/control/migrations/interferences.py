"""Interferences: what users and other clients may do to a move while it is under way, by name.

Each is given the cluster, with one job named `move`, and the pod that it moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from restow.eviction.costs import EVICTION_COST, NEVER_EVICT
from restow.model import kinds
from restow.model.objects import Pod
from restow.sim.loop import VirtualLoop
from tests.control.migrations.migration_cluster import SYSTEM, MigrationCluster, running_controller
from tests.sim.simulated_cluster import node

SECTION: dict[str, Any] = {"defaultJobTTL": "90s", "waitingTTL": "2m", "maxConcurrentReconciles": 2}
"""What is configured while they are done."""
SHORT = ("1s", "20s")
Interference = Callable[[MigrationCluster, Pod], Awaitable[object]]


async def seat(it: MigrationCluster) -> Any:
    return (await it.reservations())[0] if await it.reservations() else None


def change_seat(**changes: Any) -> Interference:
    async def interfere(it: MigrationCluster, old: Pod) -> None:
        found = await seat(it)
        if found is not None:
            await it.patch(kinds.RESERVATION, found.metadata.name, changes)

    return interfere


def change_job(**spec: Any) -> Interference:
    async def interfere(it: MigrationCluster, old: Pod) -> None:
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": spec})

    return interfere


async def delete_seat(it: MigrationCluster, old: Pod) -> None:
    found = await seat(it)
    if found is not None:
        await it.delete(kinds.RESERVATION, found.metadata.name)


async def delete_pod(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.POD, old.metadata.name)


async def kill_pod(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.POD, old.metadata.name, grace_seconds=0)


async def delete_job(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "move")


async def ask_again(it: MigrationCluster, old: Pod) -> None:
    await it.move(old, "again")


async def delete_and_ask_again(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "move")
    await it.move(old)


async def use_the_same_seat(it: MigrationCluster, old: Pod) -> None:
    found = await seat(it)
    if found is not None:
        other = next(one for one in await it.pods() if one.metadata.uid != old.metadata.uid)
        reference = {"namespace": "default", "name": found.metadata.name}
        await it.move(other, "again", reservationOptions={"reservationRef": reference})


async def move_another(it: MigrationCluster, old: Pod) -> None:
    other = next(one for one in await it.pods() if one.metadata.uid != old.metadata.uid)
    reference = {"name": other.metadata.name, "uid": other.metadata.uid}
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"podRef": reference}})


async def scale_to_none(it: MigrationCluster, old: Pod) -> None:
    await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 0}})


async def pause_workload(it: MigrationCluster, old: Pod) -> None:
    """Which keeps it from being upgraded; its pods are replaced all the same."""
    await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"paused": True}})


async def delete_workload(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.DEPLOYMENT, "web")


async def budget(it: MigrationCluster, old: Pod) -> None:
    spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    await it.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})


async def cordon(it: MigrationCluster, old: Pod) -> None:
    found = await seat(it)
    if found is not None and found.status.placements:
        await it.patch(kinds.NODE, found.status.placements[0].node_name, {"spec": {"unschedulable": True}})


async def delete_node(it: MigrationCluster, old: Pod) -> None:
    found = await seat(it)
    if found is not None and found.status.placements:
        await it.delete(kinds.NODE, found.status.placements[0].node_name)


def renew_node(cpu: str) -> Interference:
    """Another node of the same name; an empty one, for what is on it is not ours to answer for."""

    async def interfere(it: MigrationCluster, old: Pod) -> None:
        found = await seat(it)
        name = found.status.placements[0].node_name if found is not None and found.status.placements else None
        if name is not None and all(one.spec.node_name != name for one in await it.pods()):
            await it.delete(kinds.NODE, name)
            await it.create(kinds.NODE, node(name, cpu=cpu))

    return interfere


async def lead_as_well(it: MigrationCluster, old: Pod) -> None:
    """Another controller that knows nothing of the first."""

    async def lead() -> None:
        async with running_controller(it.api, it.clock, seed=2, **SECTION):
            await asyncio.sleep(600)

    going_on.append(asyncio.create_task(lead()))


async def steal_room(it: MigrationCluster, old: Pod) -> None:
    """While it is only held: a node with too much on it is not ours to answer for."""
    found = await seat(it)
    taken = any("restow.sh/reservation" in (one.metadata.annotations or {}) for one in await it.pods())
    if found is not None and found.status.placements and not taken:
        container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3700m"}}}
        spec = {"containers": [container], "nodeName": found.status.placements[0].node_name, "schedulerName": "other"}
        await it.create(kinds.POD, {"metadata": {"name": "thief", "namespace": "default"}, "spec": spec})


async def stop(it: MigrationCluster, old: Pod) -> None:
    await it.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "restow-stop", "namespace": SYSTEM}, "data": {"paused": "true"}}
    )


async def abort(it: MigrationCluster, old: Pod) -> None:
    await it.set_status("move", phase="Aborted")


async def forge(it: MigrationCluster, old: Pod) -> None:
    """A foreign reservation, under the name that the job's own will have, and annotated like it."""
    job = await it.job()
    stranger = {"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "stranger"}}
    marks = {"restow.sh/migrating": old.metadata.uid, "restow.sh/moved-from": old.spec.node_name}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1m"}}}
    made = {
        "metadata": {
            "name": f"restow-{job.metadata.uid}",
            "namespace": "default",
            "labels": {"restow.sh/migration-job": "move"},
            "annotations": marks,
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "matchPolicy": "Fits",
            "owners": [stranger],
            "tasks": [{"name": "pod", "replicas": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }
    await it.create(kinds.RESERVATION, made)


async def pause(it: MigrationCluster, old: Pod) -> None:
    """For two minutes, which is more than the job's time."""
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": True}})

    async def resume() -> None:
        await asyncio.sleep(120)
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": False}})

    going_on.append(asyncio.create_task(resume()))


going_on: list[asyncio.Task[None]] = []
"""Kept, or they would be forgotten before their time."""


async def hesitate(it: MigrationCluster, old: Pod) -> None:
    """Paused and resumed, before the controller may have seen it."""
    for paused in (True, False):
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": paused}})


def for_a_while(kind: Any, name: Callable[[MigrationCluster, Pod], Awaitable[str | None]]) -> Interference:
    """Deleted, and kept by a finalizer for a while."""

    async def interfere(it: MigrationCluster, old: Pod) -> None:
        found = await name(it, old)
        if found is None:
            return
        await it.patch(kind, found, {"metadata": {"finalizers": ["example.com/slow"]}})
        await it.delete(kind, found)

        async def let_go() -> None:
            await asyncio.sleep(45)
            await it.patch(kind, found, {"metadata": {"finalizers": None}})

        going_on.append(asyncio.create_task(let_go()))

    return interfere


async def name_of_job(it: MigrationCluster, old: Pod) -> str | None:
    return "move"


async def name_of_pod(it: MigrationCluster, old: Pod) -> str | None:
    return old.metadata.name


async def name_of_seat(it: MigrationCluster, old: Pod) -> str | None:
    found = await seat(it)
    return found.metadata.name if found is not None else None


def change_status(**status: Any) -> Interference:
    async def interfere(it: MigrationCluster, old: Pod) -> None:
        await it.set_status("move", **status)

    return interfere


def change_pod(**metadata: Any) -> Interference:
    async def interfere(it: MigrationCluster, old: Pod) -> None:
        await it.patch(kinds.POD, old.metadata.name, {"metadata": metadata})

    return interfere


async def two_budgets(it: MigrationCluster, old: Pod) -> None:
    """Of which the API server wants to hear nothing."""
    for name in ("web", "all"):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await it.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


async def redirect(it: MigrationCluster, old: Pod) -> None:
    """To where it has no seat."""
    found = await seat(it)
    kept = {one.node_name for one in (found.status.placements if found is not None else None) or ()}
    target = min({"n1", "n2", "n3", "n4"} - kept - {old.spec.node_name})
    annotations = {"restow.sh/target-node": target}
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"metadata": {"annotations": annotations}})


async def narrow_seat(it: MigrationCluster, old: Pod) -> None:
    """To nodes that do not exist."""
    found = await it.document(kinds.RESERVATION, await name_of_seat(it, old) or "")
    [task] = found["spec"]["tasks"]
    task["template"]["spec"]["nodeSelector"] = {"moon": "yes"}
    await it.patch(kinds.RESERVATION, found["metadata"]["name"], {"spec": {"tasks": [task]}})


async def taint(it: MigrationCluster, old: Pod) -> None:
    found = await seat(it)
    if found is not None and found.status.placements:
        spec = {"taints": [{"key": "example.com/broken", "effect": "NoExecute"}]}
        await it.patch(kinds.NODE, found.status.placements[0].node_name, {"spec": spec})


def jump(seconds: float) -> Interference:
    """All wall clocks are set, as when they are corrected by hand."""

    async def interfere(it: MigrationCluster, old: Pod) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.start += seconds

    return interfere


STRANGER = [{"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "stranger"}}]
INTERFERENCES: dict[str, Interference] = {
    "the seat is deleted": delete_seat,
    "the seat is given to a stranger": change_seat(spec={"owners": STRANGER}),
    "the seat is to end soon": change_seat(spec={"ttl": SHORT[1]}),
    "the seat is to end at once": change_seat(spec={"ttl": SHORT[0]}),
    "the seat loses its marks": change_seat(metadata={"annotations": {"restow.sh/migrating": None}}),
    "the seat loses its label": change_seat(metadata={"labels": {"restow.sh/migration-job": None}}),
    "the seat is no more of the job": change_seat(metadata={"labels": None, "annotations": None}),
    "the pod is deleted": delete_pod,
    "the pod is deleted at once": kill_pod,
    "the job is deleted": delete_job,
    "the job is made anew": delete_and_ask_again,
    "there is another job": ask_again,
    "another pod is to have the same seat": use_the_same_seat,
    "the job is for another pod": move_another,
    "the job does without a seat": change_job(mode="EvictDirectly"),
    "the job is to use a seat that is not there": change_job(reservationOptions={"reservationRef": {"name": "none"}}),
    "the job forgets its seat": change_job(reservationOptions=None),
    "the job forgets its pod's UID": change_job(podRef={"uid": None}),
    "the job has another name for its pod": change_job(podRef={"name": "wrong"}),
    "the job's template is nonsense": change_job(reservationOptions={"template": {"metadata": {"name": "x"}}}),
    "the workload is scaled to none": scale_to_none,
    "the workload is deleted": delete_workload,
    "there is a budget": budget,
    "there are two budgets": two_budgets,
    "the pod is never to be evicted": change_pod(annotations={EVICTION_COST: str(NEVER_EVICT)}),
    "the pod has no owner any more": change_pod(ownerReferences=None),
    "the pod has other labels": change_pod(labels={"app": "debugged"}),
    "the pod is deleted, and stays for a while": for_a_while(kinds.POD, name_of_pod),
    "the seat is deleted, and stays for a while": for_a_while(kinds.RESERVATION, name_of_seat),
    "the job is deleted, and stays for a while": for_a_while(kinds.POD_MIGRATION_JOB, name_of_job),
    "the seat is to be on the moon": narrow_seat,
    "the job is to go elsewhere": redirect,
    "the job forgets what it said": change_status(phase=None, conditions=None, podRef=None, nodeName=None),
    "the job forgets how far it was": change_status(phase="Pending"),
    "the job says something else": change_status(phase="Thinking", reason="Deep", message="hm"),
    "the node is tainted": taint,
    "the node is cordoned": cordon,
    "the node is gone": delete_node,
    "the node is another one": renew_node("4"),
    "the node is another one, and smaller": renew_node("400m"),
    "the room is taken": steal_room,
    "evictions are stopped": stop,
    "the job is aborted": abort,
    "a foreign reservation has its name": forge,
    "the job is paused for a while": pause,
    "the job is paused for no time": hesitate,
    "the workload is paused": pause_workload,
    "another one leads as well": lead_as_well,
    "the clock jumps ahead, and the job's time is over": jump(100),
    "the clock jumps ahead": jump(30),
    "the clock jumps back": jump(-100),
}

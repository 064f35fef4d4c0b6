"""Somebody interferes right after a write of the controller, whichever it is: nothing is evicted without a seat, every
job ends, and nothing is held for nobody.

Of the writes a sample is tried; RESTOW_INTERFERENCE=all tries every one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from restow.migration.reservation import job_uid
from restow.model import kinds
from restow.model.cluster.seat import migrating_pod
from restow.model.objects import Pod
from restow.ports import Api, ApiError, Request, Response
from restow.sim.loop import VirtualLoop, run_virtual
from restow.sim.writes import is_write
from tests.control.migrations.auditor import Auditor
from tests.control.migrations.stage import SYSTEM, Move, controller, scheduled
from tests.control.stage import check_room
from tests.sim.stage import node, pass_time, ready

SAMPLE = os.environ.get("RESTOW_INTERFERENCE", "1")
pytestmark = pytest.mark.timeout(0 if SAMPLE == "all" else 120)
SECTION: dict[str, Any] = {"defaultJobTTL": "90s", "waitingTTL": "2m", "maxConcurrentReconciles": 2}
SHORT = ("1s", "20s")
Deed = Callable[[Move, Pod], Awaitable[object]]


class Interloper:
    """ports.Api over another one, with a deed done after so many writes that are not Events."""

    def __init__(self, api: Api, after: int | None, deed: Callable[[], Awaitable[object]]) -> None:
        self.writes = 0
        self.watch = api.watch
        self._api = api
        self._after = after
        self._deed = deed

    async def call(self, request: Request) -> Response:
        try:
            return await self._api.call(request)
        finally:
            if is_write(request) and request.resource.plural != "events":
                self.writes += 1
                if self.writes == self._after:
                    with suppress(ApiError):
                        await self._deed()


# --- deeds ------------------------------------------------------------------------------------------------------------


async def seat(it: Move) -> Any:
    return (await it.reservations())[0] if await it.reservations() else None


def change_seat(**changes: Any) -> Deed:
    async def deed(it: Move, old: Pod) -> None:
        found = await seat(it)
        if found is not None:
            await it.patch(kinds.RESERVATION, found.metadata.name, changes)

    return deed


def change_job(**spec: Any) -> Deed:
    async def deed(it: Move, old: Pod) -> None:
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": spec})

    return deed


async def delete_seat(it: Move, old: Pod) -> None:
    found = await seat(it)
    if found is not None:
        await it.delete(kinds.RESERVATION, found.metadata.name)


async def delete_pod(it: Move, old: Pod) -> None:
    await it.delete(kinds.POD, old.metadata.name)


async def kill_pod(it: Move, old: Pod) -> None:
    await it.delete(kinds.POD, old.metadata.name, grace_seconds=0)


async def delete_job(it: Move, old: Pod) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "move")


async def ask_again(it: Move, old: Pod) -> None:
    await it.move(old, "again")


async def delete_and_ask_again(it: Move, old: Pod) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "move")
    await it.move(old)


async def use_the_same_seat(it: Move, old: Pod) -> None:
    found = await seat(it)
    if found is not None:
        other = next(one for one in await it.pods() if one.metadata.uid != old.metadata.uid)
        reference = {"namespace": "default", "name": found.metadata.name}
        await it.move(other, "again", reservationOptions={"reservationRef": reference})


async def move_another(it: Move, old: Pod) -> None:
    other = next(one for one in await it.pods() if one.metadata.uid != old.metadata.uid)
    reference = {"name": other.metadata.name, "uid": other.metadata.uid}
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"podRef": reference}})


async def scale_to_none(it: Move, old: Pod) -> None:
    await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 0}})


async def pause_workload(it: Move, old: Pod) -> None:
    """Which keeps it from being upgraded; its pods are replaced all the same."""
    await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"paused": True}})


async def delete_workload(it: Move, old: Pod) -> None:
    await it.delete(kinds.DEPLOYMENT, "web")


async def budget(it: Move, old: Pod) -> None:
    spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    await it.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})


async def cordon(it: Move, old: Pod) -> None:
    found = await seat(it)
    if found is not None and found.status.placements:
        await it.patch(kinds.NODE, found.status.placements[0].node_name, {"spec": {"unschedulable": True}})


async def delete_node(it: Move, old: Pod) -> None:
    found = await seat(it)
    if found is not None and found.status.placements:
        await it.delete(kinds.NODE, found.status.placements[0].node_name)


def renew_node(cpu: str) -> Deed:
    """Another node of the same name; an empty one, for what is on it is not ours to answer for."""

    async def deed(it: Move, old: Pod) -> None:
        found = await seat(it)
        name = found.status.placements[0].node_name if found is not None and found.status.placements else None
        if name is not None and all(one.spec.node_name != name for one in await it.pods()):
            await it.delete(kinds.NODE, name)
            await it.create(kinds.NODE, node(name, cpu=cpu))

    return deed


async def lead_as_well(it: Move, old: Pod) -> None:
    """Somebody who knows nothing of the other."""

    async def lead() -> None:
        async with controller(it.api, it.clock, seed=2, **SECTION):
            await asyncio.sleep(600)

    going_on.append(asyncio.create_task(lead()))


async def steal_room(it: Move, old: Pod) -> None:
    """While it is only held: a node with too much on it is not ours to answer for."""
    found = await seat(it)
    taken = any("restow.sh/reservation" in (one.metadata.annotations or {}) for one in await it.pods())
    if found is not None and found.status.placements and not taken:
        container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3700m"}}}
        spec = {"containers": [container], "nodeName": found.status.placements[0].node_name, "schedulerName": "other"}
        await it.create(kinds.POD, {"metadata": {"name": "thief", "namespace": "default"}, "spec": spec})


async def stop(it: Move, old: Pod) -> None:
    await it.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "restow-stop", "namespace": SYSTEM}, "data": {"paused": "true"}}
    )


async def abort(it: Move, old: Pod) -> None:
    await it.set_status("move", phase="Aborted")


async def forge(it: Move, old: Pod) -> None:
    """A reservation of somebody else, under the name that the job's own will have, and marked as its own."""
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


async def pause(it: Move, old: Pod) -> None:
    """For two minutes, which is more than the job's time."""
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": True}})

    async def resume() -> None:
        await asyncio.sleep(120)
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": False}})

    going_on.append(asyncio.create_task(resume()))


going_on: list[asyncio.Task[None]] = []
"""Kept, or they would be forgotten before their time."""


async def hesitate(it: Move, old: Pod) -> None:
    """Paused and resumed, before anybody may have seen it."""
    for paused in (True, False):
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": paused}})


def jump(seconds: float) -> Deed:
    """Everybody's wall clock is set, as somebody does who corrects it by hand."""

    async def deed(it: Move, old: Pod) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.start += seconds

    return deed


STRANGER = [{"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "stranger"}}]
DEEDS: dict[str, Deed] = {
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
    "the job has another name for its pod": change_job(podRef={"name": "nobody"}),
    "the job's template is nonsense": change_job(reservationOptions={"template": {"metadata": {"name": "x"}}}),
    "the workload is scaled to none": scale_to_none,
    "the workload is deleted": delete_workload,
    "there is a budget": budget,
    "the node is cordoned": cordon,
    "the node is gone": delete_node,
    "the node is another one": renew_node("4"),
    "the node is another one, and smaller": renew_node("400m"),
    "the room is taken": steal_room,
    "evictions are stopped": stop,
    "the job is aborted": abort,
    "somebody was there before": forge,
    "the job is paused for a while": pause,
    "the job is paused for no time": hesitate,
    "the workload is paused": pause_workload,
    "another one leads as well": lead_as_well,
    "the clock jumps ahead, and the job's time is over": jump(100),
    "the clock jumps ahead": jump(30),
    "the clock jumps back": jump(-100),
}


# --- the story --------------------------------------------------------------------------------------------------------


async def forget_rules(it: Move) -> None:
    """As if the definition of jobs were one of somebody else, by which everything can be changed."""
    name = kinds.POD_MIGRATION_JOB.qualified_name
    found = await it.document(kinds.CUSTOM_RESOURCE_DEFINITION, name)
    versions = found["spec"]["versions"]
    schemas = [version["schema"]["openAPIV3Schema"] for version in versions]
    while schemas:
        one = schemas.pop()
        one.pop("x-kubernetes-validations", None)
        schemas += one.get("properties", {}).values()
    await it.patch(kinds.CUSTOM_RESOURCE_DEFINITION, name, {"spec": {"versions": versions}})


async def story(deed: Deed | None, after: int | None) -> int:
    faults: list[str] = []
    async with scheduled(nodes=4) as it:
        await forget_rules(it)
        old = (await it.start(3))[0]

        async def interfere() -> None:
            if deed is not None:
                await deed(it, old)

        api = Interloper(it.api, after, interfere)
        auditor = Auditor(api, it.api, it.clock, faults)
        async with controller(auditor, it.clock, **SECTION):
            await it.move(old)
            await pass_time(600)
        assert faults == []
        await at_rest(it)
        if deed is None:
            assert (await it.told())[0] == "Succeed"
        return api.writes


async def at_rest(it: Move) -> None:
    jobs = (await it.client.list(kinds.POD_MIGRATION_JOB)).items
    open_jobs = [job for job in jobs if job.status.phase not in ("Succeed", "Failed", "Aborted")]
    assert open_jobs == []
    live = [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")]
    assert live == [], live
    for one in await it.pods():
        if (
            one.metadata.name == "thief" and one.status.phase == "Failed"
        ):  # its node turned it away: ours was there first
            await it.delete(kinds.POD, "thief", grace_seconds=0)
    pods = [one for one in await it.pods() if one.metadata.name != "thief"]
    here = {one.metadata.uid for one in pods}
    ended = [
        one for one in await it.reservations() if one.status.state.reason == "Expired" and migrating_pod(one) in here
    ]
    assert [one for one in ended if one.spec.ttl not in SHORT and job_uid(one)] == [], "never released"
    assert all(map(ready, pods)), [(one.metadata.name, one.spec.node_name) for one in pods if not ready(one)]
    await check_room(it)


@cache
def usual() -> int:
    """How many writes it takes if nobody interferes."""
    return run_virtual(story(None, None))


@pytest.mark.parametrize("name", DEEDS)
def test_after_any_write(name: str) -> None:
    places = range(1, usual() + 1)
    chosen = places if SAMPLE == "all" else random.Random(name).sample(places, int(SAMPLE))
    broken = {}
    for place in chosen:
        try:
            run_virtual(story(DEEDS[name], place))
        except AssertionError as error:
            broken[place] = str(error)[:1500]
    assert broken == {}

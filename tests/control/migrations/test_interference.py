"""Interference right after any write of the controller: no pod is evicted without a seat, every job ends, and no seat
is held for no pod.

Of the writes a sample is tried; RESTOW_INTERFERENCE=all tries every one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache

import pytest

from restow.migration.reservation import job_uid_of_reservation
from restow.model import kinds
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.ports import Api, ApiError, Request, Response
from restow.sim.loop import run_virtual
from restow.sim.write_log import is_write
from tests.control.migrations.interferences import INTERFERENCES, SECTION, SHORT, Interference
from tests.control.migrations.migration_auditor import MigrationAuditor
from tests.control.migrations.migration_cluster import MigrationCluster, cluster_with_scheduler, running_controller
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import is_pod_ready, pass_time

SAMPLE = os.environ.get("RESTOW_INTERFERENCE", "1")
pytestmark = pytest.mark.timeout(0 if SAMPLE == "all" else 120)


class Interloper:
    """ports.Api over another one, with a interference done after so many writes that are not Events."""

    def __init__(self, api: Api, after: int | None, interference: Callable[[], Awaitable[object]]) -> None:
        self.writes = 0
        self.watch = api.watch
        self._api = api
        self._after = after
        self._interference = interference

    async def call(self, request: Request) -> Response:
        try:
            return await self._api.call(request)
        finally:
            if is_write(request) and request.resource.plural != "events":
                self.writes += 1
                if self.writes == self._after:
                    with suppress(ApiError):
                        await self._interference()


# --- the story --------------------------------------------------------------------------------------------------------


async def forget_rules(it: MigrationCluster) -> None:
    """As with a foreign CRD of jobs, by which everything can be changed."""
    name = kinds.POD_MIGRATION_JOB.qualified_name
    found = await it.document(kinds.CUSTOM_RESOURCE_DEFINITION, name)
    versions = found["spec"]["versions"]
    schemas = [version["schema"]["openAPIV3Schema"] for version in versions]
    while schemas:
        one = schemas.pop()
        for rule in ("x-kubernetes-validations", "enum"):
            one.pop(rule, None)
        schemas += one.get("properties", {}).values()
    await it.patch(kinds.CUSTOM_RESOURCE_DEFINITION, name, {"spec": {"versions": versions}})


async def story(interference: Interference | None, after: int | None) -> int:
    faults: list[str] = []
    async with cluster_with_scheduler(nodes=4) as it:
        await forget_rules(it)
        old = (await it.start(3))[0]

        async def interfere() -> None:
            if interference is not None:
                await interference(it, old)

        api = Interloper(it.api, after, interfere)
        auditor = MigrationAuditor(api, it.api, it.clock, faults)
        async with running_controller(auditor, it.clock, **SECTION):
            await it.move(old)
            await pass_time(600)
        assert faults == []
        await at_rest(it)
        if interference is None:
            assert (await it.told())[0] == "Succeed"
        return api.writes


async def at_rest(it: MigrationCluster) -> None:
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
    assert [one for one in ended if one.spec.ttl not in SHORT and job_uid_of_reservation(one)] == [], "never released"
    assert all(map(is_pod_ready, pods)), [
        (one.metadata.name, one.spec.node_name) for one in pods if not is_pod_ready(one)
    ]
    await assert_nothing_overcommitted(it)


@cache
def usual() -> int:
    """How many writes a move takes without interference."""
    return run_virtual(story(None, None))


@pytest.mark.parametrize("name", INTERFERENCES)
def test_no_promise_is_broken_by_an_interference_after_any_write(name: str) -> None:
    places = range(1, usual() + 1)
    chosen = places if SAMPLE == "all" else random.Random(name).sample(places, int(SAMPLE))
    broken = {}
    for place in chosen:
        try:
            run_virtual(story(INTERFERENCES[name], place))
        except AssertionError as error:
            broken[place] = str(error)[:1500]
    assert broken == {}

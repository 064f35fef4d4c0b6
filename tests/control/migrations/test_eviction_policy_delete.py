"""Where pods are deleted instead of evicted: budgets hold all the same."""

from __future__ import annotations

import random

import pytest

from restow.model import kinds
from restow.model.pods import is_available
from restow.ports import Api, Forbidden, Request, Response, Status
from restow.sim.faults import FaultyApi
from tests.control.migrations.migration_cluster import MigrationCluster, cluster_with_stub_scheduler, running_controller
from tests.control.migrations.test_unavailable_replicas import spoil
from tests.sim.simulated_cluster import on_virtual_time, pass_time


async def _fewest(it: MigrationCluster, seconds: int) -> int:
    """How few pods were available at any time."""
    fewest = 99
    for _ in range(seconds * 5):
        fewest = min(fewest, sum(map(is_available, await it.pods())))
        await pass_time(0.2)
    return fewest


@pytest.mark.parametrize("workers", [1, 4])
@on_virtual_time
async def test_a_new_budget_lets_two_waiting_jobs_evict_one_at_a_time(workers: int) -> None:
    async with cluster_with_stub_scheduler() as it:
        old = await it.start(3, terminationGracePeriodSeconds=20)
        it.seats.refusing = "no room"
        async with running_controller(it.api, it.clock, evictionPolicy="Delete", maxConcurrentReconciles=workers):
            for name, pod in zip("ab", old, strict=False):
                await it.move(pod, name)
            await pass_time(5)
            await it.budget(2)
            it.seats.refusing = None
            assert await _fewest(it, 60) == 2
            assert [(await it.told(name))[0] for name in "ab"] == ["Succeed", "Succeed"]


@on_virtual_time
async def test_a_tightened_budget_lets_two_waiting_jobs_evict_one_at_a_time() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = await it.start(4, terminationGracePeriodSeconds=20)
        it.seats.refusing = "no room"
        await it.budget(2)
        async with running_controller(it.api, it.clock, evictionPolicy="Delete"):
            for name, pod in zip("ab", old, strict=False):
                await it.move(pod, name)
            await pass_time(5)
            await spoil(it, old[3])
            await pass_time(5)
            it.seats.refusing = None
            assert await _fewest(it, 60) == 2
            assert [(await it.told(name))[0] for name in "ab"] == ["Succeed", "Succeed"]


class Unlisted:
    """An Api that has no lists of budgets, once it is told so."""

    def __init__(self, api: Api) -> None:
        self.watch = api.watch
        self.lists = True
        self._api = api

    async def call(self, request: Request) -> Response:
        if request.verb == "list" and request.resource.plural == "poddisruptionbudgets" and not self.lists:
            raise Forbidden(Status(code=403, message="no lists"))
        return await self._api.call(request)


@pytest.mark.parametrize(
    ("budgets", "lists", "verb"),
    [
        ((), True, "delete Pod"),
        (("others",), True, "delete Pod"),
        (("web",), True, "evict Pod"),
        ((), False, "evict Pod"),
    ],
    ids=["no budget", "of others", "its own", "budgets cannot be listed"],
)
@on_virtual_time
async def test_pods_with_a_budget_are_evicted_and_others_deleted(
    budgets: tuple[str, ...], lists: bool, verb: str
) -> None:
    async with cluster_with_stub_scheduler() as it:
        unlisted = Unlisted(it.api)
        seen = FaultyApi(unlisted, random.Random(1))
        old = await it.start(3)
        for app in budgets:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
            await it.create(
                kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": app, "namespace": "default"}, "spec": spec}
            )
        await pass_time(2)
        async with running_controller(seen, it.clock, evictionPolicy="Delete"):
            await pass_time(2)
            unlisted.lists = lists
            await it.move(old[0])
            await pass_time(30)
            assert (await it.told())[0] == "Succeed"
        gone = [name for name in seen.writes.names if name.startswith(("delete Pod", "evict Pod"))]
        assert [name.startswith(verb) for name in gone] == [True], gone

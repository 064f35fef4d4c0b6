"""What happens between two steps of a move must not be overlooked: no pod is evicted on what was true before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from restow.control.migrations import MigrationConfiguration
from restow.model import kinds
from restow.model.objects import Pod
from restow.model.wire import WireError
from restow.ports import Api, NotFound, Request, Response
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_controller,
    cluster_with_scheduler,
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_given_seats import GIVEN, give
from tests.control.migrations.test_interference import forget_rules
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod

NEVER = {"scheduling.koordinator.sh/eviction-cost": str(2**31 - 1)}
Interference = Callable[[MigrationCluster, Pod], Awaitable[Any]]


@asynccontextmanager
async def about_to_leave(it: MigrationCluster, **spec: Any) -> AsyncIterator[Pod]:
    """A pod that has its seat, and leaves when the block ends: until then a budget keeps it."""
    old = await it.seek(**spec)
    await it.budget(2)
    it.seats.refusing = None
    await pass_time(10)
    assert (await it.told())[:2] == ("Running", "FailedEvict"), await it.told()
    yield old
    await it.delete(kinds.POD_DISRUPTION_BUDGET, "web")
    await pass_time(15)


async def never(it: MigrationCluster, old: Pod) -> None:
    await it.patch(kinds.POD, old.metadata.name, {"metadata": {"annotations": NEVER}})


async def orphan(it: MigrationCluster, old: Pod) -> None:
    await it.patch(kinds.POD, old.metadata.name, {"metadata": {"ownerReferences": None}})


async def another_budget(it: MigrationCluster, old: Pod) -> None:
    await it.budget(1, "another")
    await it.budget(1, "a-third")


async def redirect(it: MigrationCluster, old: Pod) -> None:
    elsewhere = {"n1", "n2", "n3"} - {old.spec.node_name, (await it.job()).status.node_name}
    target = {"restow.sh/target-node": min(str(one) for one in elsewhere)}
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"metadata": {"annotations": target}})


@pytest.mark.parametrize(
    ("interfere", "why"),
    [
        pytest.param(never, "which means never", id="its annotation says never"),
        pytest.param(orphan, "no controller would recreate it", id="it has no owner any more"),
        pytest.param(another_budget, "2 PodDisruptionBudgets cover it", id="two budgets cover it"),
        pytest.param(redirect, "its target is node", id="it is to go elsewhere"),
    ],
)
@on_virtual_time
async def test_a_protection_added_after_admission_fails_the_job(interfere: Interference, why: str) -> None:
    async with cluster_with_controller() as it:
        async with about_to_leave(it) as old:
            await interfere(it, old)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and why in (message or ""), message
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_new_configuration_applies_to_moves_under_way() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock) as made:
        async with about_to_leave(it) as old:
            made.configure(MigrationConfiguration(migration_arguments(namespaces={"exclude": ["default"]})))
        assert (await it.told())[:2] == ("Failed", "ForbiddenMigratePod") and await pod_stays(it, old)


@on_virtual_time
async def test_a_deleted_job_kept_by_a_finalizer_is_aborted() -> None:
    async with cluster_with_controller() as it:
        async with about_to_leave(it) as old:
            kept = {"metadata": {"finalizers": ["example.com/audit"]}}
            await it.patch(kinds.POD_MIGRATION_JOB, "move", kept)
            await it.delete(kinds.POD_MIGRATION_JOB, "move")
        assert await it.told() == ("Aborted", "Aborted", "the job is being deleted")
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_changed_reservation_is_not_relied_on_until_it_is_observed() -> None:
    async with cluster_with_controller() as it:
        async with about_to_leave(it) as old:
            it.seats.looking = False
            [seat] = await it.reservations()
            await it.patch(kinds.RESERVATION, seat.metadata.name, {"spec": {"minAvailable": 0}})
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Pending") and "has not observed the last change" in (message or ""), (
            message
        )
        assert await pod_stays(it, old)
        it.seats.looking = True
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_given_reservation_of_another_scheduler_fails_the_job() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2))[0]
        it.seats.places = min({"n1", "n2", "n3"} - {old.spec.node_name})
        await give(it, schedulerName="another")
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(30)
        phase, _, message = await it.told()
        assert phase == "Failed" and "another scheduler's" in (message or ""), message
        assert await pod_stays(it, old)


@on_virtual_time
async def test_an_unreadable_job_does_not_keep_others_from_being_collected() -> None:
    """With a foreign CRD that lets anything be written."""
    async with cluster_with_controller(finishedJobTTL="10m") as it:
        await it.allow_any_field(kinds.POD_MIGRATION_JOB, "spec")
        with suppress(WireError):  # it is made, but the answer cannot be read either
            await it.create(kinds.POD_MIGRATION_JOB, {"metadata": {"name": "odd"}, "spec": {"podRef": "a pod"}})
        first, second = await it.start(2)
        await it.move(first)
        await pass_time(30)
        it.seats.refusing = "no room"
        await it.move(second, "late")
        await pass_time(5)
        await it.delete(kinds.POD_MIGRATION_JOB, "late")
        await pass_time(100)
        assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]
        await pass_time(600)
        assert (await it.document(kinds.POD_MIGRATION_JOB, "odd", None))["spec"] == {"podRef": "a pod"}
        with pytest.raises(NotFound):
            await it.job()


class Slow:
    """An Api that takes long to write down an intent; what is done meanwhile is done once."""

    def __init__(self, api: Api, seconds: float, meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.watch = api.watch
        self._api = api
        self._seconds = seconds
        self._meanwhile = meanwhile

    async def call(self, request: Request) -> Response:
        if request.subresource == "status" and b'"Evicting"' in request.body:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(self._seconds)
        return await self._api.call(request)


@pytest.mark.parametrize(
    "staged",
    [
        pytest.param(cluster_with_scheduler, id="its scheduler looks"),
        pytest.param(cluster_with_stub_scheduler, id="its scheduler does not"),
    ],
)
@on_virtual_time
async def test_a_seat_spoiled_while_the_intent_is_recorded_is_not_relied_on(staged: Any) -> None:
    port = [{"name": "main", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    async with staged(nodes=4) as it:
        [old] = await it.start(1, containers=port)

        async def spoil() -> None:
            [made] = await it.reservations()
            where = (made.status.placements or [])[0].node_name
            await it.create(kinds.POD, pod("loud", "100m", app="loud", nodeName=where, containers=port))

        async with running_controller(Slow(it.api, 2, spoil), it.clock):
            await it.move(old, ttl="20m")
            await pass_time(60)
            assert await pod_stays(it, old)


@on_virtual_time
async def test_a_slowly_recorded_intent_is_followed_by_another_check() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2))[0]
        async with running_controller(Slow(it.api, 20, it.stop), it.clock):
            await it.move(old)
            await pass_time(60)
            assert await pod_stays(it, old)
            await it.go()
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"status": {"phase": "Aborted"}}, ("Aborted", "Aborted"), id="aborted"),
        pytest.param({"spec": {"paused": True}}, ("Running", "Paused"), id="paused"),
    ],
)
@on_virtual_time
async def test_a_job_stopped_while_its_intent_is_recorded_does_not_evict(change: Any, told: tuple[str, str]) -> None:
    part = "status" if "status" in change else None
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2))[0]
        stop = it.client.patch(kinds.POD_MIGRATION_JOB, "move", change, subresource=part)
        async with running_controller(Slow(it.api, 0, lambda: stop), it.clock):
            await it.move(old)
            await pass_time(30)
            assert await pod_stays(it, old) and (await it.told())[:2] == told


@on_virtual_time
async def test_an_intent_is_not_recorded_over_an_abort() -> None:
    async with cluster_with_stub_scheduler() as it:
        await forget_rules(it)
        old = (await it.start(2))[0]
        async with running_controller(Slow(it.api, 0, lambda: it.set_status("move", phase="Aborted")), it.clock):
            await it.move(old)
            await pass_time(30)
            assert await pod_stays(it, old) and (await it.told())[:2] == ("Aborted", "Aborted")


@on_virtual_time
async def test_reads_for_one_job_hold_back_the_eviction_of_another() -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        first, second, third = await it.start(3)
        target = min({"n1", "n2", "n3", "n4"} - {one.spec.node_name for one in (first, second, third)})
        it.seats.places = target

        async def lose_node() -> None:
            await it.delete(kinds.NODE, target)
            await it.move(second, "b")

        async with running_controller(Slow(it.api, 3, lose_node), it.clock, maxConcurrentReconciles=4):
            await it.move(first, "a")
            await pass_time(20)
            assert await pod_stays(it, first) and await pod_stays(it, second)
            assert {(await it.told(name))[1] for name in "ab"} == {"Unschedulable"}


@on_virtual_time
async def test_one_seat_is_not_given_to_two_jobs_that_record_their_intents_slowly() -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        first, second, third = await it.start(3)
        it.seats.places = min({"n1", "n2", "n3", "n4"} - {one.spec.node_name for one in (first, second, third)})
        it.seats.binding = False
        await give(it)
        await it.move(first, "a", paused=True, reservationOptions=GIVEN)  # which would come first
        resumed = {"spec": {"paused": False}}
        late = it.patch(kinds.POD_MIGRATION_JOB, "a", resumed)
        async with running_controller(Slow(it.api, 2, lambda: late), it.clock, maxConcurrentReconciles=4):
            await it.move(second, "b", reservationOptions=GIVEN)
            await pass_time(20)
            assert [await pod_stays(it, one) for one in (first, second)] == [True, False]

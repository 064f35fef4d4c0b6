"""Moves that something comes in the way of: what becomes of the job, of the pod, and of the seat."""

from __future__ import annotations

import random

import pytest

from restow.client.fenced_api import Fenced
from restow.control.migrations import MigrationConfiguration, controller
from restow.migration.facts import Facts
from restow.migration.steps import ReadLive
from restow.migration.stop_switch import RESUME_HINT
from restow.model import kinds
from restow.model.objects import Document, Pod
from restow.ports import Request, Response
from restow.sim.faults import FaultyApi
from restow.sim.write_log import is_write
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_controller,
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time

ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
KRUISE = {
    "metadata": {"name": kinds.POD_UNAVAILABLE_BUDGET.qualified_name},
    "spec": {
        "group": kinds.POD_UNAVAILABLE_BUDGET.group,
        "names": {"kind": "PodUnavailableBudget", "plural": kinds.POD_UNAVAILABLE_BUDGET.plural},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1alpha1", "served": True, "storage": True, "schema": ANYTHING, "subresources": {"status": {}}}
        ],
    },
}
NO_SEAT = "no seat outside its own node {}: no room"


# --- budgets, limits and the stop switch ------------------------------------------------------------------------------


@on_virtual_time
async def test_a_job_waits_for_a_disruption_budget() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2))[0]
        await it.budget(2)
        await it.move(old)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Pending", "Budget"), message
        assert "2 of 2 desired pods are healthy" in (message or "")
        assert await it.reservations() == [] and await pod_stays(it, old)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 3}})
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"


async def tell(it: MigrationCluster, status: Document) -> None:
    """Of Kruise's budget."""
    await it.client.patch(kinds.POD_UNAVAILABLE_BUDGET, "web", {"status": status}, "default", subresource="status")


@on_virtual_time
async def test_a_job_waits_for_an_unavailable_budget_where_the_crd_exists() -> None:
    async with cluster_with_stub_scheduler() as it:
        await it.create(kinds.CUSTOM_RESOURCE_DEFINITION, KRUISE)
        async with running_controller(it.api, it.clock):
            old = (await it.start(2))[0]
            spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
            metadata = {"name": "web", "namespace": "default"}
            await it.create(kinds.POD_UNAVAILABLE_BUDGET, {"metadata": metadata, "spec": spec})
            status = {"unavailableAllowed": 0, "currentAvailable": 2, "desiredAvailable": 2, "observedGeneration": 1}
            await tell(it, status)
            await it.move(old)
            await pass_time(30)
            told = "waits for its budget: PodUnavailableBudget default/web: 2 of 2 desired pods are healthy, 0 may be"
            phase, reason, message = await it.told()
            assert (phase, reason) == ("Pending", "Budget") and (message or "").startswith(told), message
            await tell(it, {"unavailableAllowed": 1})
            await pass_time(30)
            assert (await it.told())[0] == "Succeed"


async def late_budget(it: MigrationCluster) -> Pod:
    """A pod is to move, and before it has a seat a budget is created that allows no disruption."""
    old = await it.seek()
    await it.budget(2)
    it.seats.refusing = None
    return old


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
@on_virtual_time
async def test_a_budget_created_after_admission_holds_the_eviction_back(policy: str) -> None:
    async with cluster_with_controller(evictionPolicy=policy) as it:
        old = await late_budget(it)
        await pass_time(30)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "FailedEvict")
        assert "needs 2 healthy pods and has 2 currently" in (message or "")
        assert await pod_stays(it, old)
        await it.delete(kinds.POD_DISRUPTION_BUDGET, "web")
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_recreated_node_does_not_have_the_seat_of_the_old_one() -> None:
    """Even if the reservation does not show it yet."""
    async with cluster_with_controller() as it:
        old = await late_budget(it)
        await pass_time(10)
        assert (await it.told())[1] == "FailedEvict"
        target = (await it.job()).status.node_name or ""
        await it.delete(kinds.NODE, target)
        await it.create(kinds.NODE, node(target))
        await it.delete(kinds.POD_DISRUPTION_BUDGET, "web")
        await pass_time(15)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "Unschedulable") and f"{target} is another one" in (message or "")
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_job_waits_for_a_limit_with_its_numbers() -> None:
    async with cluster_with_controller(maxMigratingGlobally=1) as it:
        await it.line_up()
        await pass_time(5)
        phase, reason, message = await it.told("b")
        assert (phase, reason) == ("Pending", "MaxMigratingGlobally") and "1" in (message or "")
        it.seats.refusing = None
        await pass_time(60)
        assert [(await it.told(name))[0] for name in "ab"] == ["Succeed", "Succeed"]


@on_virtual_time
async def test_no_pod_is_evicted_while_the_stop_switch_is_set() -> None:
    async with cluster_with_controller() as it:
        old, other = await it.start(2)
        it.seats.refusing = "no room"
        await it.move(old)
        await pass_time(3)
        await it.stop()
        it.seats.refusing = None
        await it.move(other, "late")
        await pass_time(60)
        assert await it.told() == ("Running", "Stopped", f"evictions are stopped: maintenance; {RESUME_HINT}")
        assert await it.told("late") == ("Pending", "Stopped", f"evictions are stopped: maintenance; {RESUME_HINT}")
        assert await pod_stays(it, old) and await pod_stays(it, other)
        await it.go()
        await pass_time(60)
        assert [(await it.told(name))[0] for name in ("move", "late")] == ["Succeed", "Succeed"]


class Fencing(FaultyApi):
    """Lets nothing be written while it is down; counts what is asked of it then."""

    down = False
    calls = 0

    async def call(self, request: Request) -> Response:
        self.calls += self.down
        if self.down and is_write(request):
            raise Fenced.because(403, "Fenced", "not sent: may not lead any more")
        return await super().call(request)


@on_virtual_time
async def test_a_leader_that_may_not_write_pauses_its_reads() -> None:
    async with cluster_with_stub_scheduler() as it:
        api = Fencing(it.api, random.Random(1))
        async with running_controller(api, it.clock, maxMigratingGlobally=1) as made:
            pods = await it.start(8)
            it.seats.refusing = "no room"
            for pod in pods:
                await it.move(pod, pod.metadata.name)
            await pass_time(5)
            api.down = True
            made.configure(
                MigrationConfiguration(migration_arguments(maxConcurrentReconciles=8))
            )  # all of them could be admitted now
            await pass_time(60)
            assert api.calls < 100, "one or two a second, however many jobs there are"
            api.down, it.seats.refusing = False, None
            await pass_time(60)
            assert {(await it.told(pod.metadata.name))[0] for pod in pods} == {"Succeed"}


# --- time -------------------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_timeout_before_the_eviction_releases_the_seat() -> None:
    async with cluster_with_controller() as it:
        old = await it.seek(ttl="60s")
        await pass_time(57)
        assert await it.told() == ("Failed", "Timeout", f"not done within 1m0s: {NO_SEAT.format(old.spec.node_name)}")
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_timeout_after_the_eviction_keeps_the_seat() -> None:
    async with cluster_with_controller() as it:
        await it.leave(ttl="60s")
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "Timeout") and "its seat is kept until" in (message or "")
        assert len(await it.reservations()) == 1
        it.seats.binding = True
        await pass_time(20)
        assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]


@on_virtual_time
async def test_a_budget_that_never_allows_it_times_a_direct_eviction_out() -> None:
    async with cluster_with_controller(evictQPS=0.05, evictBurst=1) as it:
        first, second = await it.start(2)
        await it.move(first, "first", mode="EvictDirectly")
        await it.move(second, mode="EvictDirectly", ttl="2m")
        await pass_time(10)  # the second was admitted, and waits for its turn
        assert (await it.told("first"))[0] == "Succeed" and (await it.told())[0] == "Running"
        await it.budget(2)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "FailedEvict") and "needs 2 healthy pods" in (message or "")
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "Timeout")
        assert (message or "").startswith("not done within 2m0s: ") and "needs 2 healthy pods" in (message or "")
        assert await pod_stays(it, second)


@on_virtual_time
async def test_a_job_waiting_for_admission_times_out() -> None:
    async with cluster_with_controller(maxMigratingGlobally=1, waitingTTL="30s", defaultJobTTL="10m") as it:
        await it.line_up()
        await pass_time(40)
        phase, reason, message = await it.told("b")
        assert (phase, reason) == ("Failed", "Timeout") and "not admitted within 30s" in (message or "")
        assert (await it.told("a"))[0] == "Running"


@on_virtual_time
async def test_ended_jobs_are_kept_for_finished_job_ttl() -> None:
    async with cluster_with_controller(finishedJobTTL="5m", objectLimiters={"workload": {"duration": "0s"}}) as it:
        await it.move((await it.start())[0])
        await pass_time(200)
        assert (await it.told())[0] == "Succeed"
        await pass_time(200)
        assert (await it.client.list(kinds.POD_MIGRATION_JOB)).items == []


# --- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ReservationFirst", "EvictDirectly"])
@on_virtual_time
async def test_a_dry_run_writes_nothing_and_reports_what_it_would_do(mode: str) -> None:
    async with cluster_with_stub_scheduler() as it:
        seen = FaultyApi(it.api, random.Random(1))
        async with running_controller(seen, it.clock, dryRun=True):
            old = (await it.start())[0]
            await it.move(old, mode=mode)
            await pass_time(30)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Aborted", "DryRun") and "would be" in (message or "")
        assert {name.split()[1] for name in seen.writes.names} <= {"PodMigrationJob", "PodMigrationJob/status", "Event"}
        assert await pod_stays(it, old)


@on_virtual_time
async def test_a_dry_run_switched_on_later_releases_the_seat_and_says_so() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock) as made:
        old = await it.seek()
        [seat] = await it.reservations()
        made.configure(MigrationConfiguration(migration_arguments(dryRun=True)))
        it.seats.refusing = None
        await pass_time(30)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Aborted", "DryRun")
        assert f"reservation {seat.metadata.name} was created before and is released now" in (message or "")
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_an_admitted_job_keeps_its_mode_when_the_default_changes() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start())[0]
        it.seats.refusing = "no room"
        async with running_controller(it.api, it.clock):
            await it.move(old)
            await pass_time(5)
            assert (await it.told())[0] == "Running"
        async with running_controller(it.api, it.clock, defaultJobMode="EvictDirectly"):
            await pass_time(30)
            assert await it.told() == ("Running", "Unschedulable", NO_SEAT.format(old.spec.node_name))
            assert await pod_stays(it, old)
            assert (await it.job()).spec.mode == "ReservationFirst"


@on_virtual_time
async def test_a_disabled_controller_can_be_enabled_while_it_runs() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock, enabled=False) as made:
        old = (await it.start())[0]
        await it.move(old)
        await pass_time(30)
        assert await it.told() == (None, None, None)
        made.configure(MigrationConfiguration(migration_arguments(maxConcurrentReconciles=3)))
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_job_that_cannot_be_decided_is_retried_later_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cluster changes faster than it is read: every look asks for another."""
    looks: list[float] = []

    def never_sure(facts: Facts) -> ReadLive:
        looks.append(facts.now)
        return ReadLive(dry_run_eviction=True)

    monkeypatch.setattr(controller, "next_step", never_sure)
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2))[0]
        async with running_controller(it.api, it.clock):
            await it.move(old)
            await pass_time(60)
    assert 4 < len(looks) < 60, looks

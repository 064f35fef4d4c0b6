"""Stories of workload controllers."""

from __future__ import annotations

from typing import Any

from restow.model import kinds
from restow.sim.world import Settings
from tests.sim.simulated_cluster import (
    is_pod_ready,
    on_virtual_time,
    pass_time,
    pod,
    simulated_cluster,
    template,
    workload,
)
from tests.sim.status_readers import conditions, names, status

# ---- ReplicaSet


@on_virtual_time
async def test_a_replica_set_keeps_its_number_through_scaling_deletion_and_failure() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        first = names(await it.pods())
        await it.delete(kinds.POD, first[0])
        await pass_time(10)
        assert len(set(names(await it.pods())) - set(first)) == 1
        for replicas in (5, 1, 0):
            await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": replicas}})
            await pass_time(10)
            assert [is_pod_ready(each) for each in await it.pods()] == [True] * replicas
        assert (await status(it, kinds.REPLICA_SET, "web"))["replicas"] == 0


@on_virtual_time
async def test_replica_set_adopts_matching_pods_and_releases_others() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.POD, pod("stray", app="web"))
        await it.create(kinds.REPLICA_SET, workload("web", 2))
        await pass_time(5)
        pods = await it.pods()
        assert len(pods) == 2
        assert "stray" in names(pods)
        await it.patch(kinds.POD, "stray", {"metadata": {"labels": {"app": "other"}}})
        await pass_time(5)
        owned = [each.metadata.name for each in await it.pods() if each.metadata.owner_references]
        assert len(owned) == 2
        assert "stray" not in owned


@on_virtual_time
async def test_deleting_a_replica_set_takes_its_pods_along() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        await it.delete(kinds.REPLICA_SET, "web")
        await pass_time(10)
        assert await it.pods() == []


@on_virtual_time
async def test_scaling_down_gives_up_the_cheapest_pod() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        cheap = names(await it.pods())[1]
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
        await it.patch(kinds.POD, cheap, cost)
        await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 2}})
        await pass_time(10)
        assert cheap not in names(await it.pods())


# ---- Deployment


@on_virtual_time
async def test_a_rolling_update_never_leaves_its_bounds() -> None:
    async with simulated_cluster(settings=Settings(start=2, ready=1)) as it:
        limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await it.create(kinds.DEPLOYMENT, workload("web", 6, strategy=limits))
        await pass_time(20)
        worst = {"fewest": 99, "most": 0}

        def watch(view: Any) -> bool:
            alive = [each for each in view.inside(kinds.POD, "default") if not view.is_leaving(each)]
            worst["fewest"] = min(worst["fewest"], sum(map(is_pod_ready, alive)))
            worst["most"] = max(worst["most"], len(alive))
            return all((each.metadata.labels or {}).get("v") == "2" and is_pod_ready(each) for each in alive)

        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await it.world.until(watch)
        await pass_time(10)
        assert worst["fewest"] >= 5
        assert worst["most"] <= 8
        shown = await status(it, kinds.DEPLOYMENT, "web")
        assert conditions(shown)["Progressing"] == ("True", "NewReplicaSetAvailable")
        assert (shown["updatedReplicas"], shown["availableReplicas"], shown["replicas"]) == (6, 6, 6)
        generation = (await it.document(kinds.DEPLOYMENT, "web"))["metadata"]["generation"]
        assert shown["observedGeneration"] == generation


@on_virtual_time
async def test_recreate_deployment_stops_all_old_pods_before_new_ones() -> None:
    async with simulated_cluster(settings=Settings(stop=5)) as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 3, strategy={"type": "Recreate"}))
        await pass_time(10)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(3)
        assert all(each.metadata.deletion_timestamp for each in await it.pods())
        await pass_time(10)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3


@on_virtual_time
async def test_stuck_deployment_reports_progress_deadline_exceeded() -> None:
    async with simulated_cluster() as it:
        await it.create(
            kinds.DEPLOYMENT, workload("web", 2, pods=template("64", app="web"), progressDeadlineSeconds=60)
        )
        await pass_time(90)
        shown = conditions(await status(it, kinds.DEPLOYMENT, "web"))
        assert shown["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert shown["Available"] == ("False", "MinimumReplicasUnavailable")


@on_virtual_time
async def test_going_back_to_an_old_template_reuses_its_replica_set_as_a_new_revision() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        for label in ("2", None):
            await pass_time(30)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
        await pass_time(30)
        sets = (await it.client.list(kinds.REPLICA_SET, "default")).items
        revision = "deployment.kubernetes.io/revision"
        assert sorted((each.metadata.annotations or {})[revision] for each in sets) == ["2", "3"]
        assert (await it.document(kinds.DEPLOYMENT, "web"))["metadata"]["annotations"][revision] == "3"


@on_virtual_time
async def test_scaling_in_the_middle_of_a_rollout_ends_at_the_new_size() -> None:
    async with simulated_cluster(settings=Settings(start=5)) as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 4))
        await pass_time(20)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(3)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 8}})
        await pass_time(60)
        pods = await it.pods()
        assert len(pods) == 8
        assert all((each.metadata.labels or {})["v"] == "2" for each in pods)


@on_virtual_time
async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        await pass_time(10)
        changes = {"paused": True, "replicas": 3, "template": {"metadata": {"labels": {"v": "2"}}}}
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": changes})
        await pass_time(20)
        assert ["v" in (each.metadata.labels or {}) for each in await it.pods()] == [False] * 3


@on_virtual_time
async def test_old_revisions_beyond_the_limit_are_forgotten() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 1, revisionHistoryLimit=1))
        for label in ("2", "3", "4"):
            await pass_time(30)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
        await pass_time(30)
        assert len((await it.client.list(kinds.REPLICA_SET, "default")).items) == 2


@on_virtual_time
async def test_recreated_deployment_adopts_the_replica_sets_of_its_namesake() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        await pass_time(10)
        before = names(await it.pods())
        await it.delete(kinds.DEPLOYMENT, "web", propagation="Orphan")
        await pass_time(10)
        await it.create(kinds.DEPLOYMENT, workload("web", 3))
        await pass_time(10)
        assert set(before) < set(names(await it.pods()))
        assert len((await it.client.list(kinds.REPLICA_SET, "default")).items) == 1

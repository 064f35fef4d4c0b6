"""Stories of workload controllers."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document, Pod
from restow.model.times import format_time
from restow.ports import STRATEGIC_PATCH
from restow.sim.world import Settings
from restow.sim.world.objects import CONTROLLER_REVISION
from restow.sim.world.template import REVISION_HASH
from tests.sim.stage import Stage, job, pass_time, pod, ready, stage, template, virtual, workload


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


async def status(it: Stage, kind: kinds.Kind[Any], name: str) -> Document:
    found: Document = (await it.document(kind, name))["status"]
    return found


def conditions(status: Document) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", ())}


# ---- ReplicaSet


@virtual
async def test_a_replica_set_keeps_its_number_through_scaling_deletion_and_failure() -> None:
    async with stage() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        first = names(await it.pods())
        await it.delete(kinds.POD, first[0])
        await pass_time(10)
        assert len(set(names(await it.pods())) - set(first)) == 1
        for replicas in (5, 1, 0):
            await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": replicas}})
            await pass_time(10)
            assert [ready(each) for each in await it.pods()] == [True] * replicas
        assert (await status(it, kinds.REPLICA_SET, "web"))["replicas"] == 0


@virtual
async def test_a_replica_set_adopts_what_fits_and_releases_what_no_longer_does() -> None:
    async with stage() as it:
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


@virtual
async def test_deleting_a_replica_set_takes_its_pods_along() -> None:
    async with stage() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        await it.delete(kinds.REPLICA_SET, "web")
        await pass_time(10)
        assert await it.pods() == []


@virtual
async def test_scaling_down_gives_up_the_cheapest_pod() -> None:
    async with stage() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        await pass_time(5)
        cheap = names(await it.pods())[1]
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
        await it.patch(kinds.POD, cheap, cost)
        await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 2}})
        await pass_time(10)
        assert cheap not in names(await it.pods())


# ---- Deployment


@virtual
async def test_a_rolling_update_never_leaves_its_bounds() -> None:
    async with stage(settings=Settings(start=2, ready=1)) as it:
        limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await it.create(kinds.DEPLOYMENT, workload("web", 6, strategy=limits))
        await pass_time(20)
        worst = {"fewest": 99, "most": 0}

        def watch(view: Any) -> bool:
            alive = [each for each in view.inside(kinds.POD, "default") if not view.is_leaving(each)]
            worst["fewest"] = min(worst["fewest"], sum(map(ready, alive)))
            worst["most"] = max(worst["most"], len(alive))
            return all((each.metadata.labels or {}).get("v") == "2" and ready(each) for each in alive)

        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await it.world.until(watch)
        await pass_time(10)
        assert worst["fewest"] >= 5
        assert worst["most"] <= 8
        found = await status(it, kinds.DEPLOYMENT, "web")
        assert conditions(found)["Progressing"] == ("True", "NewReplicaSetAvailable")
        assert (found["updatedReplicas"], found["availableReplicas"], found["replicas"]) == (6, 6, 6)
        generation = (await it.document(kinds.DEPLOYMENT, "web"))["metadata"]["generation"]
        assert found["observedGeneration"] == generation


@virtual
async def test_recreate_stops_everything_before_it_starts_anything() -> None:
    async with stage(settings=Settings(stop=5)) as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 3, strategy={"type": "Recreate"}))
        await pass_time(10)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(3)
        assert all(each.metadata.deletion_timestamp for each in await it.pods())
        await pass_time(10)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3


@virtual
async def test_a_deployment_that_cannot_progress_says_so() -> None:
    async with stage() as it:
        await it.create(
            kinds.DEPLOYMENT, workload("web", 2, pods=template("64", app="web"), progressDeadlineSeconds=60)
        )
        await pass_time(90)
        found = conditions(await status(it, kinds.DEPLOYMENT, "web"))
        assert found["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert found["Available"] == ("False", "MinimumReplicasUnavailable")


@virtual
async def test_going_back_to_an_old_template_reuses_its_replica_set_as_a_new_revision() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        for label in ("2", None):
            await pass_time(30)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
        await pass_time(30)
        sets = (await it.client.list(kinds.REPLICA_SET, "default")).items
        revision = "deployment.kubernetes.io/revision"
        assert sorted((each.metadata.annotations or {})[revision] for each in sets) == ["2", "3"]
        assert (await it.document(kinds.DEPLOYMENT, "web"))["metadata"]["annotations"][revision] == "3"


@virtual
async def test_scaling_in_the_middle_of_a_rollout_ends_at_the_new_size() -> None:
    async with stage(settings=Settings(start=5)) as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 4))
        await pass_time(20)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(3)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 8}})
        await pass_time(60)
        pods = await it.pods()
        assert len(pods) == 8
        assert all((each.metadata.labels or {})["v"] == "2" for each in pods)


@virtual
async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        await pass_time(10)
        changes = {"paused": True, "replicas": 3, "template": {"metadata": {"labels": {"v": "2"}}}}
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": changes})
        await pass_time(20)
        assert ["v" in (each.metadata.labels or {}) for each in await it.pods()] == [False] * 3


@virtual
async def test_old_revisions_beyond_the_limit_are_forgotten() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 1, revisionHistoryLimit=1))
        for label in ("2", "3", "4"):
            await pass_time(30)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
        await pass_time(30)
        assert len((await it.client.list(kinds.REPLICA_SET, "default")).items) == 2


@virtual
async def test_a_deployment_made_again_takes_over_what_its_namesake_left() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 2))
        await pass_time(10)
        before = names(await it.pods())
        await it.delete(kinds.DEPLOYMENT, "web", propagation="Orphan")
        await pass_time(10)
        await it.create(kinds.DEPLOYMENT, workload("web", 3))
        await pass_time(10)
        assert set(before) < set(names(await it.pods()))
        assert len((await it.client.list(kinds.REPLICA_SET, "default")).items) == 1


# ---- StatefulSet


@virtual
async def test_an_ordered_stateful_set_comes_and_goes_one_by_one() -> None:
    async with stage(settings=Settings(start=2)) as it:
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
        grown = []
        for _ in range(3):
            await pass_time(2.5)
            grown.append(len(await it.pods()))
        await pass_time(10)
        assert grown[0] < 3
        assert names(await it.pods()) == ["db-0", "db-1", "db-2"]
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await pass_time(1)
        assert [each.metadata.deletion_timestamp is not None for each in await it.pods()] == [False, False, True]
        await pass_time(10)
        assert names(await it.pods()) == ["db-0"]


@virtual
async def test_a_parallel_stateful_set_does_not_wait() -> None:
    async with stage(settings=Settings(start=5)) as it:
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db", podManagementPolicy="Parallel"))
        await pass_time(1)
        assert len(await it.pods()) == 3


@virtual
async def test_an_evicted_stateful_pod_returns_under_its_name_with_its_claim() -> None:
    async with stage() as it:
        await it.create(kinds.STORAGE_CLASS, _storage_class("fast", "WaitForFirstConsumer"))
        await it.create(kinds.STATEFUL_SET, workload("db", 2, serviceName="db", volumeClaimTemplates=[_claim("data")]))
        await pass_time(30)
        [before, _] = await it.pods()
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data-db-0")
        await it.client.evict("default", "db-0", uid=before.metadata.uid)
        await pass_time(30)
        [after, _] = await it.pods()
        assert after.metadata.name == "db-0"
        assert after.metadata.uid != before.metadata.uid
        assert ready(after)
        again = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data-db-0")
        assert again["spec"]["volumeName"] == claim["spec"]["volumeName"]


@virtual
async def test_a_partition_holds_an_update_back_below_it() -> None:
    async with stage() as it:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db", updateStrategy=rolling))
        await pass_time(30)
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(30)
        await it.delete(kinds.POD, "db-0")
        await pass_time(30)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == [None, None, "2"]
        opened = {"rollingUpdate": {"partition": 0}}
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"updateStrategy": opened}})
        await pass_time(60)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3
        found = await status(it, kinds.STATEFUL_SET, "db")
        assert found["currentRevision"] == found["updateRevision"]


# ---- Job


@pytest.mark.parametrize(
    ("spec", "exit_code", "end", "succeeded", "failed"),
    [
        pytest.param({}, 0, "Complete", 1, 0, id="one pod"),
        pytest.param({"completions": 5, "parallelism": 2}, 0, "Complete", 5, 0, id="five, two at a time"),
        pytest.param(
            {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}, 0, "Complete", 4, 0, id="indexed"
        ),
        pytest.param({"backoffLimit": 2}, 1, "Failed", 0, 3, id="fails once more than it may"),
    ],
)
def test_a_job_ends(spec: Document, exit_code: int, end: str, succeeded: int, failed: int) -> None:
    @virtual
    async def story() -> None:
        async with stage() as it:
            await it.create(kinds.JOB, job("etl", exit_code=exit_code, **spec))
            await pass_time(200)
            found = await status(it, kinds.JOB, "etl")
            assert conditions(found)[end][0] == "True"
            assert (found.get("succeeded", 0), found.get("failed", 0)) == (succeeded, failed)
            assert not found.get("active")
            assert not any(each.metadata.finalizers for each in await it.pods())

    story()


@virtual
async def test_a_job_replaces_an_evicted_pod_and_counts_it_as_failed() -> None:
    async with stage() as it:
        await it.create(kinds.JOB, job("etl", run=60))
        await pass_time(10)
        [first] = await it.pods()
        await it.client.evict("default", first.metadata.name, uid=first.metadata.uid)
        await pass_time(120)
        found = await status(it, kinds.JOB, "etl")
        assert conditions(found)["Complete"][0] == "True"
        assert (found["succeeded"], found["failed"]) == (1, 1)


@virtual
async def test_a_job_over_its_deadline_fails_and_stops_its_pods() -> None:
    async with stage() as it:
        await it.create(kinds.JOB, job("etl", run=1000, activeDeadlineSeconds=30))
        await pass_time(60)
        assert conditions(await status(it, kinds.JOB, "etl"))["Failed"] == ("True", "DeadlineExceeded")
        assert not [each for each in await it.pods() if each.status.phase == "Running"]


@virtual
async def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    async with stage() as it:
        await it.create(kinds.JOB, job("etl", ttlSecondsAfterFinished=100))
        await pass_time(60)
        assert len((await it.client.list(kinds.JOB, "default")).items) == 1
        await pass_time(100)
        assert (await it.client.list(kinds.JOB, "default")).items == []
        assert await it.pods() == []


# ---- DaemonSet


@virtual
async def test_a_daemon_set_runs_on_every_node_that_fits() -> None:
    async with stage(nodes=3) as it:
        taint = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
        await it.patch(kinds.NODE, "n3", taint)
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(10)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["n1", "n2"]
        found = await status(it, kinds.DAEMON_SET, "agent")
        assert (found["desiredNumberScheduled"], found["numberReady"]) == (2, 2)
        await it.patch(kinds.NODE, "n3", {"spec": {"taints": None}})
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(10)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["n1", "n2", "n3"]


@virtual
async def test_a_daemon_set_update_replaces_one_node_at_a_time() -> None:
    async with stage(nodes=3, settings=Settings(start=5)) as it:
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(20)
        await it.patch(kinds.DAEMON_SET, "agent", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        fewest = 3
        for _ in range(60):
            await pass_time(1)
            fewest = min(fewest, sum(map(ready, await it.pods())))
        assert fewest == 2
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3


# ---- revisions


@pytest.mark.parametrize("kind", [kinds.STATEFUL_SET, kinds.DAEMON_SET], ids=["StatefulSet", "DaemonSet"])
def test_templates_are_revisions_and_one_that_returns_is_the_newest(kind: kinds.Kind[Any]) -> None:
    @virtual
    async def story() -> None:
        async with stage(nodes=2) as it:
            await it.create(kind, workload("x", 2 if kind is kinds.STATEFUL_SET else None, revisionHistoryLimit=1))
            for label in ("2", None, "3", None):
                await pass_time(30)
                await it.patch(kind, "x", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
            await pass_time(30)
            found = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
            templates = {each["revision"]: each["data"]["spec"]["template"] for each in found}
            assert {number: made["metadata"]["labels"].get("v") for number, made in templates.items()} == {
                4: "3",
                5: None,
            }
            assert all(made["$patch"] == "replace" for made in templates.values())
            newest = next(each["metadata"]["name"] for each in found if each["revision"] == 5)
            assert {(each.metadata.labels or {})[REVISION_HASH] for each in await it.pods()} == {newest}

    story()


@virtual
async def test_going_back_to_a_revision_of_a_daemon_set_removes_what_it_did_not_have() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        [first] = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
        await it.patch(kinds.DAEMON_SET, "x", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(30)
        await it.client.patch(kinds.DAEMON_SET, "x", first["data"], "default", type=STRATEGIC_PATCH)
        await pass_time(30)
        name = first["metadata"]["name"]
        assert [(each.metadata.labels or {})[REVISION_HASH] for each in await it.pods()] == [name, name]
        assert (await status(it, kinds.DAEMON_SET, "x"))["updatedNumberScheduled"] == 2


@virtual
async def test_a_set_made_again_takes_over_the_revisions_its_namesake_left() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        await it.delete(kinds.DAEMON_SET, "x", propagation="Orphan")
        await pass_time(10)
        made = await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        [revision] = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
        assert [each["uid"] for each in revision["metadata"]["ownerReferences"]] == [made.metadata.uid]


# ---- budgets and volumes


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        pytest.param({"maxUnavailable": 1}, 4, 3, 1, id="one may be missing"),
        pytest.param({"maxUnavailable": "50%"}, 4, 2, 2, id="half may be missing"),
        pytest.param({"minAvailable": 4}, 4, 4, 0, id="all must be there"),
        pytest.param({"minAvailable": "30%"}, 4, 2, 2, id="a share must be there, rounded up"),
    ],
)
def test_a_budget_counts(spec: Document, expected: int, desired: int, allowed: int) -> None:
    @virtual
    async def story() -> None:
        async with stage() as it:
            await it.create(kinds.DEPLOYMENT, workload("web", 4))
            selector = {"matchLabels": {"app": "web"}}
            budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec | {"selector": selector}}
            await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
            await pass_time(10)
            found = await status(it, kinds.POD_DISRUPTION_BUDGET, "web")
            keys = ("expectedPods", "desiredHealthy", "disruptionsAllowed", "currentHealthy", "observedGeneration")
            assert tuple(found[key] for key in keys) == (expected, desired, allowed, 4, 1)
            sufficient = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
            assert conditions(found)["DisruptionAllowed"] == sufficient

    story()


@virtual
async def test_a_budget_lets_evictions_through_one_after_the_other() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 3))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        [first, second, _] = await it.pods()
        await it.client.evict("default", first.metadata.name, uid=first.metadata.uid)
        with pytest.raises(Exception, match="disruption budget"):
            await it.client.evict("default", second.metadata.name, uid=second.metadata.uid)
        await pass_time(30)
        await it.client.evict("default", second.metadata.name, uid=second.metadata.uid)
        await pass_time(30)
        assert [ready(each) for each in await it.pods()] == [True] * 3


@virtual
async def test_a_disruption_that_never_happened_is_forgotten_after_two_minutes() -> None:
    async with stage() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        noted = {"disruptedPods": {names(await it.pods())[0]: format_time(it.clock.now())}}
        await it.client.patch(kinds.POD_DISRUPTION_BUDGET, "web", {"status": noted}, "default", subresource="status")
        await pass_time(100)
        assert (await status(it, kinds.POD_DISRUPTION_BUDGET, "web"))["disruptionsAllowed"] == 0
        await pass_time(30)
        found = await status(it, kinds.POD_DISRUPTION_BUDGET, "web")
        assert (found["disruptionsAllowed"], found.get("disruptedPods")) == (1, None)


@virtual
async def test_a_budget_over_pods_nobody_scales_allows_nothing_and_says_why() -> None:
    async with stage() as it:
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "agent"}}}
        budget = {"metadata": {"name": "agent", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        found = await status(it, kinds.POD_DISRUPTION_BUDGET, "agent")
        assert found["disruptionsAllowed"] == 0
        assert conditions(found)["DisruptionAllowed"] == ("False", "SyncFailed")


def _storage_class(name: str, mode: str, provisioner: str = "sim/disk") -> Document:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def _claim(name: str, storage_class: str = "fast", **spec: Any) -> Document:
    asked = {"requests": {"storage": "1Gi"}}
    body = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": asked, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": body}


def _with_claim(name: str, claim: str) -> Document:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


@virtual
async def test_an_immediate_claim_gets_its_volume_at_once_and_returns_it() -> None:
    async with stage() as it:
        await it.create(kinds.STORAGE_CLASS, _storage_class("fast", "Immediate"))
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, _claim("data"))
        await pass_time(2)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        volume = await it.document(kinds.PERSISTENT_VOLUME, claim["spec"]["volumeName"])
        assert (claim["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")
        assert "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == "sim/disk"
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        await it.delete(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        await pass_time(5)
        assert (await it.client.list(kinds.PERSISTENT_VOLUME)).items == []


@virtual
async def test_a_claim_that_waits_for_its_pod_gets_a_volume_in_the_pods_zone() -> None:
    async with stage(nodes=1) as it:
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}})
        await it.create(kinds.STORAGE_CLASS, _storage_class("fast", "WaitForFirstConsumer"))
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, _claim("data"))
        await pass_time(10)
        assert (await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data"))["status"]["phase"] == "Pending"
        await it.create(kinds.POD, _with_claim("a", "data"))
        await pass_time(10)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
        [volume] = (await it.client.list(kinds.PERSISTENT_VOLUME)).items
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
        document = await it.document(kinds.PERSISTENT_VOLUME, volume.metadata.name)
        terms = document["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [zone]}]
        assert ready((await it.pods())[0])


@virtual
async def test_a_static_volume_is_matched_smallest_first() -> None:
    async with stage() as it:
        for name, size in (("large", "5Gi"), ("small", "2Gi"), ("tiny", "10Mi")):
            spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual"}
            spec |= {"hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain"}
            await it.create(kinds.PERSISTENT_VOLUME, {"metadata": {"name": name}, "spec": spec})
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, _claim("data", "manual"))
        await pass_time(2)
        assert (await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data"))["spec"]["volumeName"] == "small"
        await it.delete(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        await pass_time(5)
        assert (await it.document(kinds.PERSISTENT_VOLUME, "small"))["status"]["phase"] == "Released"

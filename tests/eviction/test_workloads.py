from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.workloads import Workloads, expected_replicas
from restow.model.objects import Deployment, Job, StatefulSet
from restow.model.wire import convert_document
from tests.eviction.eviction_objects import deployment, pod, replica_set


def job(**fields: Any) -> Job:
    status = {"succeeded": fields.pop("succeeded", 0)}
    return convert_document(Job, {"metadata": {"name": "train", "uid": "train"}, "spec": fields, "status": status})


def rolled_out() -> Workloads:
    """A Deployment in the middle of a rolling update: two ReplicaSets, two pods each."""
    workloads = Workloads()
    for number in (1, 2, 3, 4):
        workloads.put_pod(pod(f"web-{number}", owner="ReplicaSet old" if number < 3 else "ReplicaSet new"))
    workloads.put_owner(replica_set("old"))
    workloads.put_owner(replica_set("new"))
    workloads.put_owner(deployment(replicas=3))
    return workloads


def test_the_pods_of_all_replica_sets_are_replicas_of_the_deployment() -> None:
    workloads = rolled_out()
    workload = workloads.workload_of(pod("web-1", owner="ReplicaSet old"))
    assert workload is not None
    assert (str(workload), workload.replicas) == ("Deployment shop/web", 3)
    assert sorted(one.metadata.name for one in workloads.pods_of("web")) == ["web-1", "web-2", "web-3", "web-4"]


def test_the_owner_chain_ends_at_the_topmost_controller() -> None:
    assert [one.kind for one in rolled_out().owner_chain(pod(owner="ReplicaSet old"))] == ["ReplicaSet", "Deployment"]


def test_an_unknown_owner_wants_the_pods_that_it_has() -> None:
    workloads = Workloads()
    for number in (1, 2):
        workloads.put_pod(pod(f"x-{number}", owner="CloneSet x"))
    workload = workloads.workload_of(pod("x-1", owner="CloneSet x"))
    assert workload is not None and workload.replicas == 2


def test_a_bare_pod_is_of_no_workload() -> None:
    assert Workloads().workload_of(pod(owner="")) is None


def test_finished_deleted_and_adopted_pods_are_no_replicas() -> None:
    workloads = rolled_out()
    workloads.put_pod(pod("web-1", owner="ReplicaSet old", phase="Failed"))
    workloads.drop_pod("web-2")
    workloads.put_pod(pod("web-3", owner="StatefulSet db"))
    workloads.drop_pod("never-seen")
    assert [one.metadata.name for one in workloads.pods_of("web")] == ["web-4"]


def test_a_replica_set_that_leaves_its_deployment_is_a_workload_of_its_own() -> None:
    workloads = rolled_out()
    workloads.put_owner(replica_set("old", of=None))
    workload = workloads.workload_of(pod(owner="ReplicaSet old"))
    assert workload is not None and str(workload) == "ReplicaSet shop/old"
    assert len(list(workloads.pods_of("web"))) == 2


def stateful_set(strategy: dict[str, Any], *, start: int = 0, **status: Any) -> StatefulSet:
    spec = {"template": THEIRS, "updateStrategy": strategy, "ordinals": {"start": start}}
    return convert_document(StatefulSet, {"metadata": {"name": "db", "uid": "db"}, "spec": spec, "status": status})


THEIRS = {"spec": {"schedulerName": "other", "schedulingGates": [{"name": "wait"}]}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
OF = {"controller-revision-hash": "db-1"}


@pytest.mark.parametrize(
    ("owner", "template"),
    [
        pytest.param(stateful_set({"type": "OnDelete"}, updateRevision="db-2"), "other", id="of another revision"),
        pytest.param(stateful_set({"type": "OnDelete"}, updateRevision="db-1"), None, id="of this revision"),
        pytest.param(stateful_set(ROLLING, updateRevision="db-2"), "held back", id="below the partition"),
        pytest.param(stateful_set({}, currentReplicas=2), "held back", id="not rolled out yet"),
        pytest.param(stateful_set({**ROLLING, "rollingUpdate": {"partition": 1}}), "other", id="above the partition"),
        pytest.param(
            stateful_set({**ROLLING, "rollingUpdate": {"partition": 1}}, start=1), "held back", id="counted from one"
        ),
    ],
)
def test_template_that_a_stateful_set_would_recreate_a_pod_from(owner: StatefulSet, template: str | None) -> None:
    """If the pod was created from the same template, without its schedulerName: a webhook had changed that."""
    workloads = Workloads()
    workloads.put_owner(owner)
    found = workloads.pod_template(pod("db-1", owner="StatefulSet db", labels=OF))
    assert (found.spec.scheduler_name if found is not None else "held back") == template
    assert found is None or bool(found.spec.scheduling_gates) is (template == "other")


REPLICAS = {
    "what it says": (deployment(replicas=5), 5),
    "one where it says nothing": (Deployment(), 1),
    "as many as run at once": (job(parallelism=4, completions=10), 4),
    "no more than are left to do": (job(parallelism=4, completions=10, succeeded=8), 2),
    "a job for one pod": (job(), 1),
}


@pytest.mark.parametrize("case", REPLICAS.values(), ids=REPLICAS)
def test_expected_replicas_of_each_kind_of_owner(case: tuple[Deployment | Job, int]) -> None:
    owner, expected = case
    assert expected_replicas(owner) == expected

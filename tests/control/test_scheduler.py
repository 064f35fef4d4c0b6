"""The scheduler in a cluster: from pending to Ready, and what the status says where that cannot be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from restow.control.scheduler import Scheduler, SchedulerMetrics, SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.enqueue import admit_all
from restow.scheduling.session import Backlog, Session
from tests.control.scheduler_cluster import (
    SetBackClock,
    assert_nothing_overcommitted,
    condition_of_pod,
    events_with_reason,
    gang_member,
    nodes_by_pod,
    pod_group,
    scheduled_cluster,
    unscheduled_cluster,
)
from tests.control.volume_objects import POD_VOLUMES, STORAGE_CLASS, VOLUME_CLAIM
from tests.sim.simulated_cluster import (
    default_profile,
    is_pod_ready,
    node,
    on_virtual_time,
    pass_time,
    pod,
    running_component,
    running_scheduler,
    template,
    workload,
)


@on_virtual_time
async def test_pods_of_a_workload_become_ready() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 6))
        await pass_time(10)
        pods = await it.pods()
        assert len(pods) == 6
        assert all(map(is_pod_ready, pods))
        assert sorted(await events_with_reason(it, "Scheduled")) == sorted(
            (one.metadata.name, f"Successfully assigned default/{one.metadata.name} to {one.spec.node_name}")
            for one in pods
        )
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_unschedulable_pod_says_why_and_is_requeued_by_a_new_node() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "6"))
        await pass_time(5)
        why = "0/2 nodes are available: 2 Insufficient cpu."
        assert await condition_of_pod(it, "big") == ("False", "Unschedulable", why)
        assert await events_with_reason(it, "FailedScheduling") == [("big", why)]
        await it.create(kinds.NODE, node("large", cpu="8"))
        await pass_time(12)
        assert await nodes_by_pod(it) == {"big": "large"}
        assert (await condition_of_pod(it, "big"))[0] == "True"


@on_virtual_time
async def test_newly_declared_node_feature_requeues_the_pods_that_need_it() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("a", hostNetwork=True, hostUsers=False))
        await pass_time(5)
        assert "didn't match Pod's required features" in str((await condition_of_pod(it, "a"))[2])
        features = {"status": {"declaredFeatures": ["UserNamespacesHostNetworkSupport"]}}
        await it.client.patch(kinds.NODE, "n1", features, subresource="status")
        await pass_time(12)
        assert await nodes_by_pod(it) == {"a": "n1"}


@on_virtual_time
async def test_backoff_is_not_lengthened_by_a_clock_set_back() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        clock = SetBackClock(it.clock)
        async with running_scheduler(it.api, clock):
            await it.create(kinds.POD, pod("big", "6"))
            await pass_time(2)
            clock.set_back_by = 3600.0
            await it.create(kinds.NODE, node("large", cpu="8"))
            await pass_time(12)
            assert await nodes_by_pod(it) == {"big": "large"}


@on_virtual_time
async def test_gang_waits_until_enough_pods_exist() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 3))
        for number in (1, 2):
            await it.create(kinds.POD, gang_member(f"w{number}", "train"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"w1": None, "w2": None}
        status, _, message = await condition_of_pod(it, "w1")
        assert (status, message) == ("False", "pod group default/train needs 3 pods, 2 exist")
        assert (await events_with_reason(it, "Unschedulable", "PodGroup"))[-1] == ("train", message)
        await it.create(kinds.POD, gang_member("w3", "train"))
        await pass_time(15)
        assert await nodes_by_pod(it) == {"w1": "n1", "w2": "n1", "w3": "n1"}
        assert await events_with_reason(it, "Scheduled", "PodGroup") == [("train", "3 of 3 pods have a node")]
        status = (await it.document(kinds.POD_GROUP, "train"))["status"]
        assert (status["phase"], status["running"]) == ("Running", 3)
        assert [(one["type"], one["status"]) for one in status["conditions"]] == [
            ("Unschedulable", "False"),
            ("Scheduled", "True"),
        ]


@on_virtual_time
async def test_room_goes_to_the_pod_of_higher_priority() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD, pod("first", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("low", "4"))
        await it.create(kinds.POD, pod("high", "4", priorityClassName="high"))
        await pass_time(5)
        await it.delete(kinds.POD, "first")
        await pass_time(30)
        assert await nodes_by_pod(it) == {"low": None, "high": "n1"}


@on_virtual_time
async def test_room_of_a_terminating_pod_is_nominated_and_then_used() -> None:
    async with scheduled_cluster(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "4", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.POD, pod("new", "3"))
        await pass_time(5)
        waiting = await it.document(kinds.POD, "new")
        assert waiting["status"]["nominatedNodeName"] == "n1"
        status, reason, message = await condition_of_pod(it, "new")
        assert (status, reason) == ("False", "Unschedulable")
        assert "are leaving on node n1" in (message or "")
        await it.create(kinds.POD, pod("later", "2"))
        await pass_time(40)
        assert await nodes_by_pod(it) == {"new": "n1", "later": None}
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "new"))["status"]


@on_virtual_time
async def test_failed_nomination_is_removed_from_the_status() -> None:
    async with scheduled_cluster(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "4", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.POD, pod("new", "3"))
        await pass_time(5)
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(40)
        assert await nodes_by_pod(it) == {"new": None}
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "new"))["status"]
        assert (await condition_of_pod(it, "new"))[2] == "0/1 nodes are available: 1 node(s) were unschedulable."


@on_virtual_time
async def test_volume_is_provisioned_on_the_node_of_its_first_pod() -> None:
    async with scheduled_cluster(provision=5.0) as it:
        await it.create(kinds.STORAGE_CLASS, STORAGE_CLASS)
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, VOLUME_CLAIM)
        await it.create(kinds.POD, pod("db", volumes=POD_VOLUMES))
        await pass_time(2)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        expected = (await it.document(kinds.POD, "db"))["status"]["nominatedNodeName"]
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == expected
        assert await nodes_by_pod(it) == {"db": None}
        await pass_time(10)
        assert await nodes_by_pod(it) == {"db": expected}
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_created_volume_claim_requeues_its_pod() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.STORAGE_CLASS, STORAGE_CLASS)
        await it.create(kinds.POD, pod("db", volumes=POD_VOLUMES))
        await pass_time(5)
        assert 'persistentvolumeclaim "data" not found' in ((await condition_of_pod(it, "db"))[2] or "")
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, VOLUME_CLAIM)
        await pass_time(15)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_pod_with_a_scheduling_gate_waits_until_the_gate_is_removed() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.POD, pod("later", schedulingGates=[{"name": "wait"}]))
        await pass_time(5)
        assert (await condition_of_pod(it, "later"))[1] == "SchedulingGated"
        await it.patch(kinds.POD, "later", {"spec": {"schedulingGates": []}})
        await pass_time(5)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_pods_of_other_schedulers_take_room_and_are_not_scheduled() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("theirs", "1", schedulerName="other"))
        await it.create(kinds.POD, pod("placed", "3", schedulerName="other", nodeName="n1"))
        await pass_time(2)
        await it.create(kinds.POD, pod("ours", "2"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"theirs": None, "placed": "n1", "ours": None}
        assert (await it.document(kinds.POD, "theirs"))["status"].get("conditions") is None
        assert await events_with_reason(it, "Scheduled") == []


@on_virtual_time
async def test_pod_of_a_queue_over_its_limit_names_the_queue() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "small"}, "spec": {"capability": {"cpu": "1"}}})
        queue = {"scheduling.volcano.sh/queue-name": "small"}
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, "1", annotations=queue))
        await pass_time(5)
        assert sorted(map(str, (await nodes_by_pod(it)).values()))[0] == "None"
        [(_, message)] = await events_with_reason(it, "FailedScheduling")
        assert message == "queue small would exceed its capability: cpu (limit 1, used 1, requested 1)"


class _Noting(Session):
    """A session that notes how many pods it gets."""

    counts: ClassVar[list[int]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.counts.append(len(arguments[3].pods))


@on_virtual_time
async def test_sessions_of_competing_queues_are_bounded_and_share_fairly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restow.control.scheduler.session_runner.Session", _Noting)
    _Noting.counts.clear()
    async with unscheduled_cluster(nodes=1, cpu="16") as it:
        for name, weight in (("a", 3), ("b", 1)):
            await it.create(kinds.QUEUE, {"metadata": {"name": name}, "spec": {"weight": weight}})
        for number in range(20):
            for name in ("a", "b"):
                queue = {"scheduling.volcano.sh/queue-name": name}
                await it.create(kinds.POD, pod(f"{name}{number:02}", "1", annotations=queue))
        async with running_scheduler(it.api, it.clock, settings=SchedulerSettings(max_binding_pods=4)):
            await pass_time(5)
        placed = Counter(name[0] for name, where in (await nodes_by_pod(it)).items() if where)
        assert placed == {"a": 12, "b": 4}
        assert max(_Noting.counts) <= 4


@on_virtual_time
async def test_gang_with_succeeded_pods_is_completed() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.POD_GROUP, pod_group("batch", 2))
        ends = {"scheduling.k8s.io/group-name": "batch", "sim.restow.sh/run-seconds": "5"}
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, annotations=ends, restartPolicy="Never"))
        await pass_time(30)
        status = (await it.document(kinds.POD_GROUP, "batch"))["status"]
        assert (status["phase"], status["succeeded"], status.get("running")) == ("Completed", 2, None)


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
NOT_N1 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}]}
AWAY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NOT_N1]}}}
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


@pytest.mark.parametrize(
    ("spec", "n2", "why"),
    [
        pytest.param({"affinity": AWAY}, {}, None, id="placed where its affinity allows"),
        pytest.param({"affinity": ALONE}, {}, None, id="placed away from its anti-affine pod"),
        pytest.param(
            {"affinity": AWAY},
            {"spec": {"taints": [TAINT]}},
            "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)",
            id="refused by a taint",
        ),
        pytest.param(
            {"affinity": ALONE},
            {"spec": {"unschedulable": True}},
            "1 node(s) didn't match pod anti-affinity rules, 1 node(s) were unschedulable",
            id="refused by a cordoned node",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}},
            {},
            "2 node(s) didn't match Pod's node affinity/selector",
            id="refused by its node selector",
        ),
    ],
)
def test_second_pod_is_placed_by_its_constraints_or_says_why_not(spec: Document, n2: Document, why: str | None) -> None:
    @on_virtual_time
    async def story() -> None:
        async with scheduled_cluster(nodes=2) as it:
            await it.patch(kinds.NODE, "n2", n2)
            await it.create(kinds.POD, pod("first", nodeName="n1"))
            await it.create(kinds.POD, pod("second", **spec))
            await pass_time(5)
            assert (await nodes_by_pod(it))["second"] == (None if why else "n2")
            if why:
                assert (await condition_of_pod(it, "second"))[2] == f"0/2 nodes are available: {why}."

    story()


@on_virtual_time
async def test_undecided_pods_wait_while_many_are_being_bound() -> None:
    async with scheduled_cluster(
        nodes=3, cpu="32", settings=SchedulerSettings(max_binding_pods=3, binding_writers=1)
    ) as it:
        for number in range(30):
            await it.create(kinds.POD, pod(f"p{number}"))
        await pass_time(10)
        assert all(map(is_pod_ready, await it.pods()))


def _samples(registry: CollectorRegistry, name: str) -> dict[Iterable[str], float]:
    samples = (sample for metric in registry.collect() for sample in metric.samples)
    return {tuple(sample.labels.values()): sample.value for sample in samples if sample.name == name}


@on_virtual_time
async def test_scheduling_attempts_and_pending_pods_are_counted() -> None:
    registry = CollectorRegistry()
    async with unscheduled_cluster(nodes=1) as it:
        made = Scheduler(
            it.api, it.clock, random.Random(1), profile=default_profile(), metrics=SchedulerMetrics(registry)
        )
        async with running_component(made):
            for name, cpu in (("a", "1"), ("b", "1"), ("big", "64")):
                await it.create(kinds.POD, pod(name, cpu))
            await pass_time(5)
    attempts = _samples(registry, "scheduler_schedule_attempts_total")
    assert attempts == {("scheduled", "default-scheduler"): 2, ("unschedulable", "default-scheduler"): 1}
    waiting = {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
    assert _samples(registry, "scheduler_pending_pods") == {(queue,): count for queue, count in waiting.items()}


@on_virtual_time
async def test_broken_session_keeps_the_decisions_made_before() -> None:
    def break_down(session: Session, backlog: Backlog) -> Backlog:
        raise RuntimeError("boom")

    async with unscheduled_cluster(nodes=1) as it:
        broken = replace(default_profile(), actions=(admit_all, allocate, break_down))
        async with running_component(Scheduler(it.api, it.clock, random.Random(1), profile=broken)):
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_session_broken_at_once_refuses_all_its_pods() -> None:
    def break_down(session: Session, backlog: Backlog) -> Backlog:
        raise RuntimeError("boom")

    async with unscheduled_cluster(nodes=1) as it:
        broken = replace(default_profile(), actions=(break_down,))
        async with running_component(Scheduler(it.api, it.clock, random.Random(1), profile=broken)):
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            assert await condition_of_pod(it, "a") == ("False", "SchedulerError", "RuntimeError: boom")


@on_virtual_time
async def test_reserved_room_is_not_given_away_until_released() -> None:
    async with scheduled_cluster(nodes=1) as it:
        task = {"name": "t", "replicas": 1, "template": template("3")}
        spec = {"schedulerName": "restow", "tasks": [task]}
        await it.create(kinds.RESERVATION, {"metadata": {"name": "r", "namespace": "default"}, "spec": spec})
        placed = [{"task": "t", "index": 0, "nodeName": "n1"}]
        status = {"status": {"state": {"phase": "Available"}, "placements": placed}}
        await it.client.patch(kinds.RESERVATION, "r", status, "default", subresource="status")
        await it.create(kinds.POD, pod("a", "2"))
        await pass_time(5)
        assert (await condition_of_pod(it, "a"))[2] == "0/1 nodes are available: 1 Insufficient cpu."
        await it.delete(kinds.RESERVATION, "r")
        await pass_time(15)
        assert await nodes_by_pod(it) == {"a": "n1"}

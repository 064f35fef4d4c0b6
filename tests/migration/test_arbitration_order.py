"""The order in which waiting jobs are considered: the first are admitted while the limits have room."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migration.arbitration import arbitrate
from restow.migration.arguments import MigrationArguments
from restow.model.objects import Pod, PodMigrationJob
from restow.model.times import format_time
from tests.eviction.eviction_objects import pod
from tests.migration.job_fixture import NOW, cluster_context, job
from tests.migration.test_arbitration import NO_LADDER, told, web

QOS = "koordinator.sh/qosClass"
COST = "scheduling.koordinator.sh/eviction-cost"
SHRINK = "controller.kubernetes.io/pod-deletion-cost"
PRIORITY = "restow.sh/migration-priority"
WORKLOAD = "restow.sh/workload"


def ordered(jobs: list[PodMigrationJob], pods: list[Pod]) -> list[str]:
    return [one.job.metadata.name for one in arbitrate(jobs, cluster_context(pods), MigrationArguments())]


def lone(name: str, **more: Any) -> Pod:
    """A pod that is its workload's only one, on a node of its own."""
    return pod(name, owner=f"CloneSet {name}", nodeName=name, **more)


def replicas(app: str, count: int) -> list[Pod]:
    return [pod(f"{app}-{number}", owner=f"CloneSet {app}", nodeName=f"{app}{number}") for number in range(count)]


PODS: dict[str, list[dict[str, Any]]] = {
    "higher quality of service": [{"labels": {QOS: level}} for level in ("LSE", "LSR", "LS", "BE")],
    "higher priority": [{"priority": 10}, {"priority": 5}, {}],
    "quality before priority": [{"labels": {QOS: "LS"}}, {"labels": {QOS: "BE"}, "priority": 10}],
    "lower cost": [{"annotations": {COST: "-1"}}, {}, {"annotations": {COST: "7"}}],
    "priority before cost": [{"priority": 1, "annotations": {COST: "7"}}, {}],
    "lower deletion cost": [{"annotations": {SHRINK: "-1"}}, {}],
    "cost before deletion cost": [{"annotations": {SHRINK: "7"}}, {"annotations": {COST: "1"}}],
}


@pytest.mark.parametrize("wanted", PODS.values(), ids=PODS)
def test_each_criterion_of_a_pod_orders_the_jobs(wanted: list[dict[str, Any]]) -> None:
    """Whatever it is called: later names come first."""
    pods = {f"p{9 - number}": more for number, more in enumerate(wanted)}
    jobs = [job(name, pod=name) for name in sorted(pods)]
    assert ordered(jobs, [lone(name, **more) for name, more in pods.items()]) == list(pods)


def test_higher_migration_priority_then_fewer_failures_then_fewer_moves_come_first() -> None:
    jobs = [
        job("a", pod="a", created="2026-01-01T00:00:00Z"),
        job("b", pod="b", annotations={PRIORITY: "5"}),
        job("c", pod="c"),
        job("d", pod="d"),
        job("e", pod="e"),
        job("failed", pod="c", phase="Failed"),
        job("moved", pod="gone", phase="Succeed", annotations={WORKLOAD: "d"}),
    ]
    assert ordered(jobs, [lone(name) for name in "abcde"]) == ["b", "a", "e", "d", "c"]


BEFORE: dict[str, tuple[list[PodMigrationJob], list[Pod]]] = {
    "cost before migration priority": (
        [job("a", pod="a", annotations={PRIORITY: "5"}), job("b", pod="b")],
        [lone("a", annotations={SHRINK: "1"}), lone("b")],
    ),
    "migration priorities of many digits": (
        [
            job("a", pod="a", annotations={PRIORITY: "999999999"}),
            job("b", pod="b", annotations={PRIORITY: "1000000000"}),
        ],
        [lone("a"), lone("b")],
    ),
    "migration priority before failures": (
        [
            job("a", pod="a"),
            job("b", pod="b", annotations={PRIORITY: "5"}),
            job("failed", pod="b", phase="Failed"),
        ],
        [lone("a"), lone("b")],
    ),
    "moves of the past before those under way": (
        [
            job("a", pod="a-0"),
            job("b", pod="b-0"),
            job("old", pod="b-1", phase="Running"),
            job("moved", pod="gone", phase="Succeed", annotations={WORKLOAD: "a"}),
        ],
        [*replicas("a", 2), *replicas("b", 2)],
    ),
}


@pytest.mark.parametrize(("jobs", "pods"), BEFORE.values(), ids=BEFORE)
def test_an_earlier_criterion_decides_before_a_later_one(jobs: list[PodMigrationJob], pods: list[Pod]) -> None:
    """By the former b comes first, by the latter it would be a."""
    assert ordered(jobs, pods) == ["b", "a"]


def test_workloads_take_turns_and_one_with_fewer_migrating_pods_comes_first() -> None:
    jobs = [job(f"{app}-{n}", pod=f"{app}-{n}") for app in "ab" for n in range(3)]
    under_way = job("old", pod="a-3", phase="Running")
    found = ordered([*jobs, under_way], [*replicas("a", 4), *replicas("b", 4)])
    assert found == ["b-0", "a-0", "b-1", "a-1", "b-2", "a-2"]


def test_of_equal_jobs_the_older_comes_first_whatever_its_name() -> None:
    jobs = [job("a", pod="web-1", created=format_time(NOW)), job("b", pod="web-2", created=format_time(NOW - 60))]
    assert told(jobs, web(3), globally=1, **NO_LADDER)["b"] == ""

"""What jobs under way take of the limits, before and after their pods were evicted; and pods that belong to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.protections import Protections
from restow.migration.arbitration import JobAdmitted, JobWaiting, arbitrate
from restow.migration.arguments import MigrationArguments
from restow.migration.cluster_context import ClusterContext, migration_candidate
from restow.migration.limit_usage import unavailability_limit_reached
from restow.migration.limits import EvictionWindow, MigrationLimits
from restow.model.objects import PodMigrationJob
from restow.model.times import format_time
from tests.eviction.objects import deployment, pdb, pod, replica_set
from tests.migration.jobs import NOW, cluster_context, job
from tests.migration.test_arbitration import judged, moves, told, web

A_MINUTE = EvictionWindow(60.0, 1)
FREE = {"per_workload": 9, "unavailable_per_workload": 9}


def under_way(**more: Any) -> PodMigrationJob:
    """A job for web-2 that was admitted before."""
    return job("before", pod="web-2", phase="Running", **more)


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_a_job_under_way_is_an_eviction_to_come(window: str) -> None:
    found = judged([under_way(), *moves(1)], web(5), **FREE, **{window: A_MINUTE})["move-1"]
    assert isinstance(found, JobWaiting) and "0 pods were evicted within 1m0s and 1 is about to be" in found.message
    assert found.retry_at is None


def leaving(phase: str = "Running") -> ClusterContext:
    """A Deployment of five pods, of which web-2 is on its way out."""
    pods = [pod(f"web-{number}", nodeName=f"n{number}") for number in (1, 3, 4, 5)]
    pods.append(pod("web-2", nodeName="n2", deletionTimestamp=format_time(NOW), phase=phase))
    return cluster_context(pods, [deployment(replicas=5), replica_set()])


@pytest.mark.parametrize("ago", [20, 61])
@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_an_eviction_that_was_asked_for_in_vain_is_still_to_come(window: str, ago: int) -> None:
    found = judged([under_way(evicted=NOW - ago), *moves(1)], web(5), **FREE, **{window: A_MINUTE})["move-1"]
    assert isinstance(found, JobWaiting) and "0 pods were evicted within 1m0s and 1 is about to be" in found.message


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_once_it_was_evicted_it_is_one_of_the_past(window: str) -> None:
    found = judged([under_way(evicted=NOW - 20), *moves(1)], leaving(), **FREE, **{window: A_MINUTE})["move-1"]
    assert isinstance(found, JobWaiting) and "1 pod was evicted within 1m0s and 0 are about to be" in found.message
    assert found.retry_at == NOW + 40


@pytest.mark.parametrize("limit", [{"per_workload": 1}, {"workload_window": A_MINUTE}], ids=["at once", "in a window"])
def test_whoever_was_evicted_is_on_its_way_though_it_be_over(limit: dict[str, Any]) -> None:
    """Its containers have stopped, and somebody's finalizer keeps it."""
    around, jobs = leaving("Failed"), [under_way(evicted=NOW - 20), *moves(1)]
    assert told(jobs, around, **(FREE | limit))["move-1"] != ""


@pytest.mark.parametrize("ago", [60, 61])
def test_and_after_the_window_it_is_none_any_more(ago: int) -> None:
    jobs = [under_way(evicted=NOW - ago), *moves(1)]
    assert told(jobs, leaving(), **FREE, workload_window=A_MINUTE, namespace_window=A_MINUTE) == {"move-1": ""}


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_so_is_whoever_is_admitted_together(window: str) -> None:
    found = told(moves(2), web(5), **FREE, **{window: A_MINUTE})
    assert [bool(message) for message in found.values()] == [False, True]


def test_a_window_for_a_namespace_that_allows_none_says_nothing() -> None:
    assert told([under_way(), *moves(1)], web(5), **FREE, namespace_window=EvictionWindow(60.0, 0)) == {"move-1": ""}


def test_a_window_does_not_count_what_others_do() -> None:
    other = job("other", pod="web-9", namespace="elsewhere", phase="Running")
    assert told([other, *moves(1)], web(5), **FREE, namespace_window=A_MINUTE) == {"move-1": ""}


UNAVAILABLE = (
    "waits for maxUnavailablePerWorkload: {} of 5 pods of Deployment shop/web are unavailable, at most {} may be"
)


def test_whoever_is_admitted_is_unavailable_from_then_on() -> None:
    found = told(moves(3), web(5), per_workload=9, unavailable_per_workload=2)
    assert list(found.values()) == ["", "", UNAVAILABLE.format(2, 2)]


def test_whoever_is_under_way_is_unavailable_though_it_is_ready() -> None:
    found = told([under_way(), *moves(1)], web(5), per_workload=9, unavailable_per_workload=1)
    assert found == {"move-1": UNAVAILABLE.format(1, 1)}


@pytest.mark.parametrize(("ready", "admitted"), [(True, False), (False, True)], ids=["ready", "broken"])
def test_a_broken_pod_may_go_where_its_budget_has_enough_without_it(ready: bool, admitted: bool) -> None:
    around = cluster_context([pod("web-1", ready=ready)], budgets=[pdb(allowed=0)])
    assert (told(moves(1), around)["move-1"] == "") is admitted


def test_a_job_under_way_is_charged_to_the_budget_before_its_pod_is_evicted() -> None:
    found = told([under_way(), *moves(1)], web(5, budgets=[pdb(allowed=1)]))
    assert found["move-1"].endswith("1 may be disrupted, 1 are about to be")


def test_a_pod_of_nobody_is_limited_by_nobodys_replicas() -> None:
    around = cluster_context([pod("web-1", owner=""), pod("web-2", owner="")])
    bold = MigrationArguments(
        protections=Protections(evict_all_bare_pods=True), limits=MigrationLimits(per_node=1, workload_window=A_MINUTE)
    )
    first, second = arbitrate(moves(2), around, bold)
    assert isinstance(first, JobAdmitted) and first.workload is None
    assert isinstance(second, JobWaiting) and second.limit == "maxMigratingPerNode"


@pytest.mark.parametrize(
    ("broken", "leaving", "expected"),
    [
        ((), (), None),
        (("web-2",), (), None),
        (("web-2", "web-3"), (), "2 of 5 pods of Deployment shop/web are unavailable, at most 2 may be"),
        (("web-2",), ("web-3",), "2 of 5 pods of Deployment shop/web are unavailable, at most 2 may be"),
        ((), ("web-1",), None),
        (("web-1", "web-2"), (), None),
        (("web-1", "web-2", "web-3"), (), "3 of 5 pods of Deployment shop/web are unavailable, at most 2 may be"),
    ],
)
def test_before_its_eviction_a_pod_is_asked_who_else_is_missing(
    broken: tuple[str, ...], leaving: tuple[str, ...], expected: str | None
) -> None:
    names = [f"web-{number}" for number in range(1, 6)]
    pods = {name: pod(name, ready=name not in broken) for name in names}
    around = cluster_context(pods.values(), [deployment(replicas=5), replica_set()])
    jobs = [job(name, pod=name, phase="Running") for name in names]  # who was admitted and stays is not missing
    one = migration_candidate(jobs[0], pods["web-1"], around)
    found = unavailability_limit_reached(one, around, MigrationLimits(), lambda other: other.metadata.name in leaving)
    assert (found.numbers if found else None) == expected


@pytest.mark.parametrize(
    "limits", [FREE, {"per_workload": "100%", "unavailable_per_workload": "50%"}, {}], ids=["free", "share", "none"]
)
def test_a_pod_that_is_over_takes_nothing_of_its_workload(limits: dict[str, Any]) -> None:
    over = [pod(f"web-{number}", phase="Succeeded") for number in (1, 2)]
    around = cluster_context([*over, pod("web-3")], [deployment(replicas=1), replica_set()])
    window = {"workload_window": A_MINUTE}
    assert told([under_way(), *moves(1)], around, **limits, **window) == {"move-1": ""}
    [last] = told(
        [under_way(), job("last", pod="web-3")], around, per_workload=1, unavailable_per_workload=1, **window
    ).values()
    assert last == "", "who is over is in nobody's way"


def test_so_is_one_that_somebody_else_deleted_before_its_job_has_said_so() -> None:
    found = told([under_way(), *moves(1)], leaving("Failed"), **(FREE | {"per_workload": 1}))
    assert found["move-1"] == (
        "waits for maxMigratingPerWorkload: 1 of 5 pods of Deployment shop/web are migrating, at most 1 may"
    )

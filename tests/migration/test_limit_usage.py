"""What jobs under way take from the limits, before and after their pods were evicted; and what bare pods take."""

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
from tests.eviction.eviction_objects import deployment, pdb, pod, replica_set
from tests.migration.job_fixture import NOW, cluster_context, job
from tests.migration.test_arbitration import judged, moves, told, web

A_MINUTE = EvictionWindow(60.0, 1)
FREE = {"per_workload": 9, "unavailable_per_workload": 9}


def under_way(**more: Any) -> PodMigrationJob:
    """A job for web-2 that was admitted before."""
    return job("before", pod="web-2", phase="Running", **more)


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_a_job_under_way_counts_as_a_coming_eviction(window: str) -> None:
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
def test_an_eviction_without_effect_counts_as_a_coming_one(window: str, ago: int) -> None:
    found = judged([under_way(evicted=NOW - ago), *moves(1)], web(5), **FREE, **{window: A_MINUTE})["move-1"]
    assert isinstance(found, JobWaiting) and "0 pods were evicted within 1m0s and 1 is about to be" in found.message


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_an_evicted_pod_counts_as_a_past_eviction(window: str) -> None:
    found = judged([under_way(evicted=NOW - 20), *moves(1)], leaving(), **FREE, **{window: A_MINUTE})["move-1"]
    assert isinstance(found, JobWaiting) and "1 pod was evicted within 1m0s and 0 are about to be" in found.message
    assert found.retry_at == NOW + 40


@pytest.mark.parametrize("limit", [{"per_workload": 1}, {"workload_window": A_MINUTE}], ids=["at once", "in a window"])
def test_an_evicted_pod_that_has_finished_still_counts(limit: dict[str, Any]) -> None:
    """Its containers have stopped, and a finalizer keeps it."""
    around, jobs = leaving("Failed"), [under_way(evicted=NOW - 20), *moves(1)]
    assert told(jobs, around, **(FREE | limit))["move-1"] != ""


@pytest.mark.parametrize("ago", [60, 61])
def test_an_eviction_before_the_window_does_not_count(ago: int) -> None:
    jobs = [under_way(evicted=NOW - ago), *moves(1)]
    assert told(jobs, leaving(), **FREE, workload_window=A_MINUTE, namespace_window=A_MINUTE) == {"move-1": ""}


@pytest.mark.parametrize("window", ["workload_window", "namespace_window"])
def test_jobs_admitted_together_count_as_coming_evictions(window: str) -> None:
    found = told(moves(2), web(5), **FREE, **{window: A_MINUTE})
    assert [bool(message) for message in found.values()] == [False, True]


def test_a_namespace_window_of_zero_is_no_limit() -> None:
    assert told([under_way(), *moves(1)], web(5), **FREE, namespace_window=EvictionWindow(60.0, 0)) == {"move-1": ""}


def test_a_namespace_window_counts_only_its_own_namespace() -> None:
    other = job("other", pod="web-9", namespace="elsewhere", phase="Running")
    assert told([other, *moves(1)], web(5), **FREE, namespace_window=A_MINUTE) == {"move-1": ""}


UNAVAILABLE = (
    "waits for maxUnavailablePerWorkload: {} of 5 pods of Deployment shop/web are unavailable, at most {} may be"
)


def test_an_admitted_pod_counts_as_unavailable() -> None:
    found = told(moves(3), web(5), per_workload=9, unavailable_per_workload=2)
    assert list(found.values()) == ["", "", UNAVAILABLE.format(2, 2)]


def test_a_migrating_pod_counts_as_unavailable_though_it_is_ready() -> None:
    found = told([under_way(), *moves(1)], web(5), per_workload=9, unavailable_per_workload=1)
    assert found == {"move-1": UNAVAILABLE.format(1, 1)}


@pytest.mark.parametrize(("ready", "admitted"), [(True, False), (False, True)], ids=["ready", "broken"])
def test_an_unready_pod_is_admitted_though_its_budget_is_exhausted(ready: bool, admitted: bool) -> None:
    around = cluster_context([pod("web-1", ready=ready)], budgets=[pdb(allowed=0)])
    assert (told(moves(1), around)["move-1"] == "") is admitted


def test_a_job_under_way_is_charged_to_the_budget_before_its_pod_is_evicted() -> None:
    found = told([under_way(), *moves(1)], web(5, budgets=[pdb(allowed=1)]))
    assert found["move-1"].endswith("1 may be disrupted, 1 are about to be")


def test_a_bare_pod_is_not_limited_by_replicas() -> None:
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
def test_unavailable_replicas_are_counted_again_before_each_eviction(
    broken: tuple[str, ...], leaving: tuple[str, ...], expected: str | None
) -> None:
    names = [f"web-{number}" for number in range(1, 6)]
    pods = {name: pod(name, ready=name not in broken) for name in names}
    around = cluster_context(pods.values(), [deployment(replicas=5), replica_set()])
    jobs = [job(name, pod=name, phase="Running") for name in names]  # an admitted pod that stays is available
    one = migration_candidate(jobs[0], pods["web-1"], around)
    found = unavailability_limit_reached(one, around, MigrationLimits(), lambda other: other.metadata.name in leaving)
    assert (found.numbers if found else None) == expected


@pytest.mark.parametrize(
    "limits", [FREE, {"per_workload": "100%", "unavailable_per_workload": "50%"}, {}], ids=["free", "share", "none"]
)
def test_a_finished_pod_takes_nothing_from_the_limits_of_its_workload(limits: dict[str, Any]) -> None:
    over = [pod(f"web-{number}", phase="Succeeded") for number in (1, 2)]
    around = cluster_context([*over, pod("web-3")], [deployment(replicas=1), replica_set()])
    window = {"workload_window": A_MINUTE}
    assert told([under_way(), *moves(1)], around, **limits, **window) == {"move-1": ""}
    [last] = told(
        [under_way(), job("last", pod="web-3")], around, per_workload=1, unavailable_per_workload=1, **window
    ).values()
    assert last == "", "a finished pod takes nothing"


def test_a_pod_deleted_by_another_client_still_counts_as_migrating() -> None:
    found = told([under_way(), *moves(1)], leaving("Failed"), **(FREE | {"per_workload": 1}))
    assert found["move-1"] == (
        "waits for maxMigratingPerWorkload: 1 of 5 pods of Deployment shop/web are migrating, at most 1 may"
    )

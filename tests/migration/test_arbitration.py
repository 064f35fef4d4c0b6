from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from restow.eviction.protections import Protections
from restow.migration.arbitration import ArbitrationVerdict, JobAdmitted, JobRefused, JobWaiting, arbitrate
from restow.migration.arguments import MigrationArguments
from restow.migration.cluster_context import ClusterContext
from restow.migration.limits import EvictionWindow, MigrationLimits, max_unavailable
from restow.model.objects import PersistentVolumeClaim, Pod, PodMigrationJob
from restow.model.selectors import parse_label_selector
from tests.eviction.eviction_objects import deployment, pdb, pod, replica_set
from tests.migration.job_fixture import NOW, cluster_context, job
from tests.narrowing import present


def judged(jobs: list[PodMigrationJob], around: ClusterContext, **limits: Any) -> dict[str, ArbitrationVerdict]:
    found = arbitrate(jobs, around, MigrationArguments(limits=MigrationLimits(**{"per_node": None, **limits})))
    return {one.job.metadata.name: one for one in found}


def told(jobs: list[PodMigrationJob], around: ClusterContext, **limits: Any) -> dict[str, str]:
    """What each job is told: nothing if it is admitted."""
    found = judged(jobs, around, **limits)
    return {name: "" if isinstance(one, JobAdmitted) else one.message for name, one in found.items()}


def web(count: int, replicas: int | None = None, **more: Any) -> ClusterContext:
    """A Deployment with so many ready pods web-1, web-2, …, each on a node of its own."""
    pods = [pod(f"web-{number}", nodeName=f"n{number}") for number in range(1, count + 1)]
    return cluster_context(pods, [deployment(replicas=replicas or count), replica_set()], **more)


def moves(count: int) -> list[PodMigrationJob]:
    return [job(f"move-{number}", pod=f"web-{number}") for number in range(1, count + 1)]


# --- limits -----------------------------------------------------------------------------------------------------------

NO_LADDER = {"check_per_workload": False, "check_unavailable": False}


def test_max_migrating_globally_is_waited_for_with_its_numbers() -> None:
    assert told(moves(3), web(3), globally=2, **NO_LADDER) == {
        "move-1": "",
        "move-2": "",
        "move-3": "waits for maxMigratingGlobally: 2 pods are migrating, at most 2 may",
    }


def test_max_migrating_per_node_is_waited_for_with_its_numbers() -> None:
    pods = [pod("web-1"), pod("web-2"), pod("web-3", nodeName="n2")]
    assert told(moves(3), cluster_context(pods), per_node=1, **NO_LADDER) == {
        "move-1": "",
        "move-2": "waits for maxMigratingPerNode: 1 pod on node n1 is migrating, at most 1 may",
        "move-3": "",
    }


def test_an_evicted_pod_no_longer_counts_for_its_node() -> None:
    under_way = job("old", pod="gone", phase="Running", evicted=NOW - 5)
    assert told([under_way, *moves(1)], cluster_context([pod("web-1")]), per_node=1, **NO_LADDER) == {"move-1": ""}


def test_max_migrating_per_namespace_is_waited_for_with_its_numbers() -> None:
    other = pod("web-2", namespace="elsewhere")
    jobs = [job("a"), job("b", pod="web-3"), job("c", pod="web-2", namespace="elsewhere")]
    assert told(jobs, cluster_context([pod("web-1"), pod("web-3"), other]), per_namespace=1, **NO_LADDER) == {
        "a": "",
        "b": "waits for maxMigratingPerNamespace: 1 pod of namespace shop is migrating, at most 1 may",
        "c": "",
    }


def test_a_limit_of_zero_is_no_limit() -> None:
    assert set(told(moves(3), web(3), globally=0, per_namespace=0, **NO_LADDER).values()) == {""}


def test_the_default_ladder_limits_a_workload_without_budget() -> None:
    assert told(moves(5), web(5)) == {
        "move-1": "",
        "move-2": "",
        **dict.fromkeys(
            ("move-3", "move-4", "move-5"),
            "waits for maxMigratingPerWorkload: 2 of 5 pods of Deployment shop/web are migrating, at most 2 may",
        ),
    }


def test_a_single_replica_is_admitted() -> None:
    assert told(moves(1), web(1)) == {"move-1": ""}


def test_small_workloads_are_refused_if_configured() -> None:
    found = judged(moves(1), web(1), refuse_small_workloads=True)["move-1"]
    assert isinstance(found, JobRefused) and "single replica" in found.message


def test_jobs_under_way_count_for_the_workload_limit() -> None:
    jobs = [job("old", pod="web-2", phase="Running"), *moves(1)]
    assert "1 of 3 pods of Deployment shop/web are migrating, at most 1 may" in told(jobs, web(3))["move-1"]


def test_a_job_with_a_forged_phase_running_is_arbitrated_like_others() -> None:
    forged = job("forged", pod="web-2", phase="Running", admitted=False)
    assert set(told([forged, *moves(1)], web(3))) == {"forged", "move-1"}


def test_unready_missing_and_terminating_pods_are_unavailable() -> None:
    pods = [
        pod("web-1"),
        pod("web-2", ready=False),
        pod("web-3", deletionTimestamp="2027-01-01T00:00:00Z"),
        pod("web-4", phase="Pending", ready=False),
        pod("web-5", phase="Unknown", ready=True),
    ]
    around = cluster_context(pods, [deployment(replicas=6), replica_set()])
    assert told(moves(1), around, unavailable_per_workload=5) == {
        "move-1": "waits for maxUnavailablePerWorkload: "
        "5 of 6 pods of Deployment shop/web are unavailable, at most 5 may be"
    }
    assert told(moves(1), around, unavailable_per_workload=6) == {"move-1": ""}


def test_an_unready_pod_does_not_block_its_own_move() -> None:
    pods = [pod("web-1", ready=False), pod("web-2"), pod("web-3")]
    assert told(moves(2), cluster_context(pods, [deployment(), replica_set()]), per_workload=2) == {
        "move-1": "",
        "move-2": "waits for maxUnavailablePerWorkload: "
        "1 of 3 pods of Deployment shop/web are unavailable, at most 1 may be",
    }


def test_pods_beyond_the_replicas_may_be_unavailable() -> None:
    assert set(told(moves(2), web(4, replicas=2), per_workload=9, unavailable_per_workload=0).values()) == {""}


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_admitted_jobs_are_charged_to_the_budget_before_their_eviction() -> None:
    assert told(moves(3), web(3, budgets=[pdb(allowed=2)])) == {
        "move-1": "",
        "move-2": "",
        "move-3": "waits for its budget: PodDisruptionBudget shop/web: 3 of 2 desired pods are healthy, "
        "2 may be disrupted, 2 are about to be",
    }


def test_evictions_in_the_budget_status_are_not_charged_twice() -> None:
    budget = pdb(allowed=1, disruptedPods={"web-1": "2027-01-01T00:00:00Z"})
    jobs = [job("old", pod="web-1", phase="Running", evicted=NOW), *moves(2)[1:]]
    assert told(jobs, web(3, budgets=[budget])) == {"move-2": ""}


def test_the_default_ladder_does_not_apply_beside_a_budget() -> None:
    assert set(told(moves(5), web(5, budgets=[pdb(allowed=5)])).values()) == {""}


def test_explicit_limits_apply_beside_a_budget() -> None:
    found = told(moves(2), web(5, budgets=[pdb(allowed=5)]), per_workload=1)
    assert found["move-2"].startswith("waits for maxMigratingPerWorkload: 1 of 5")


def test_two_budgets_make_a_pod_unmovable() -> None:
    found = judged(moves(1), web(3, budgets=[pdb("a"), pdb("b")]))["move-1"]
    assert isinstance(found, JobRefused)
    assert found.message.startswith("pod shop/web-1 cannot be moved: 2 PodDisruptionBudgets cover it (a, b)")


# --- windows ----------------------------------------------------------------------------------------------------------

FIVE_MINUTES = EvictionWindow(300.0, 2)


def past(*ago: float) -> list[PodMigrationJob]:
    notes = {"restow.sh/workload": "web"}
    return [
        job(f"past-{number}", pod=f"old-{number}", phase="Succeed", evicted=NOW - one, annotations=notes)
        for number, one in enumerate(ago)
    ]


def test_evictions_within_a_window_count_until_the_reported_time() -> None:
    found = judged([*past(10, 200, 301), *moves(1)], web(5), workload_window=FIVE_MINUTES)["move-1"]
    assert isinstance(found, JobWaiting)
    assert (found.limit, found.retry_at) == ("objectLimiters.workload", NOW + 100)
    assert found.message == (
        "waits for objectLimiters.workload: 2 pods were evicted within 5m0s and 0 are about to be "
        "of Deployment shop/web, at most 2 may"
    )


def test_admitted_jobs_count_as_coming_evictions_in_a_window() -> None:
    found = told([*past(10), *moves(2)], web(5), workload_window=FIVE_MINUTES)
    assert [bool(message) for message in found.values()] == [False, True]


def test_evictions_within_the_window_of_a_namespace_count() -> None:
    found = judged([*past(10), *moves(1)], web(5), namespace_window=EvictionWindow(300.0, 1))["move-1"]
    assert isinstance(found, JobWaiting) and found.limit == "objectLimiters.namespace"


# --- waves and others -------------------------------------------------------------------------------------------------


def test_a_later_wave_waits_and_its_verdict_names_the_failed_moves() -> None:
    jobs = [job("a", pod="web-1", plan="p", wave=1), job("b", pod="web-2", plan="p", wave=2)]
    assert told(jobs, web(3)) == {
        "a": "",
        "b": "waits for its wave: wave 1 of plan p comes first, and 1 of its jobs has not ended",
    }
    failed = job("a", pod="web-1", plan="p", wave=1, phase="Failed")
    found = judged([failed, jobs[1]], web(3))["b"]
    assert isinstance(found, JobAdmitted) and found.failed_before == ("a",)
    assert found.message == "within all limits; 1 earlier moves of its plan failed, so it is validated again"


def test_one_of_two_jobs_for_a_pod_waits_for_the_other() -> None:
    assert told([job("a"), job("b")], web(3))["b"] == "waits for the other job of its pod: job a moves it already"


@pytest.mark.parametrize(
    "left_out",
    [job(paused=True), job(pod="missing"), job(phase="Succeed"), job(phase="Aborted"), job(phase="Running")],
    ids=["paused", "without a pod", "over", "aborted", "under way"],
)
def test_jobs_that_do_not_wait_get_no_verdict(left_out: PodMigrationJob) -> None:
    assert judged([left_out], web(3)) == {}


def test_a_protected_pod_is_refused_with_the_reason() -> None:
    around = cluster_context([pod("web-1", owner="DaemonSet agent")])
    found = judged(moves(1), around)["move-1"]
    assert isinstance(found, JobRefused)
    assert found.message == "pod shop/web-1 cannot be moved: DaemonSet agent would put it back on the same node"


@pytest.mark.parametrize(
    ("mode", "default", "only", "refused"),
    [
        pytest.param("EvictDirectly", "ReservationFirst", True, True, id="the job wants none"),
        pytest.param(None, "EvictDirectly", True, True, id="neither the job nor the default wants one"),
        pytest.param("ReservationFirst", "EvictDirectly", True, False, id="the job wants one"),
        pytest.param("EvictDirectly", "ReservationFirst", False, False, id="nodeFit is not set"),
    ],
)
def test_node_fit_refuses_jobs_without_a_reservation(mode: str | None, default: str, only: bool, refused: bool) -> None:
    [found] = arbitrate([job(mode=mode)], web(3), MigrationArguments(requires_reservation=only, default_mode=default))
    assert isinstance(found, JobRefused) is refused
    assert not isinstance(found, JobRefused) or "nodeFit is set" in found.message


# --- promises ---------------------------------------------------------------------------------------------------------

CLUSTERS = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 3)), min_size=1, max_size=4)
LIMITS = st.fixed_dictionaries(
    {
        "globally": st.none() | st.integers(0, 4),
        "per_node": st.none() | st.integers(0, 2),
        "per_namespace": st.none() | st.integers(0, 3),
        "per_workload": st.none() | st.integers(0, 3) | st.sampled_from(["10%", "50%"]),
        "unavailable_per_workload": st.none() | st.integers(0, 3) | st.sampled_from(["10%", "50%"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(CLUSTERS, LIMITS, st.randoms(use_true_random=False))
def test_no_limit_is_exceeded_by_admitting_and_the_order_of_jobs_does_not_matter(
    cluster: list[tuple[int, bool, int]], written: dict[str, Any], rng: Any
) -> None:
    limits = MigrationLimits(**written)
    pods, jobs, budgets, nodes = [], [], [], itertools.cycle(["n1", "n2", "n3"])
    for number, (size, budgeted, allowed) in enumerate(cluster):
        labels = {"app": f"w{number}"}
        for place in range(size):
            name = f"w{number}-{place}"
            pods.append(pod(name, owner=f"CloneSet w{number}", nodeName=next(nodes), labels=labels))
            jobs.append(job(name, pod=name, phase="Running" if rng.random() < 0.1 else ""))
        if budgeted:
            budgets.append(pdb(f"w{number}", app=f"w{number}", allowed=allowed))
    around, arguments = cluster_context(pods, budgets=budgets), MigrationArguments(limits=limits)
    verdicts = arbitrate(jobs, around, arguments)
    shuffled = list(jobs)
    rng.shuffle(shuffled)
    assert arbitrate(shuffled, around, arguments) == verdicts

    before = [one for one in jobs if one.status.phase == "Running"]
    new = [one.job for one in verdicts if isinstance(one, JobAdmitted)]
    moving = [present(around.pods.get(("shop", one.spec.pod_ref.name or ""))) for one in (*before, *new)]
    fresh = [present(around.pods.get(("shop", one.spec.pod_ref.name or ""))) for one in new]
    for number, (size, budgeted, allowed) in enumerate(cluster):
        if _pods_of(number, fresh):
            _check_workload(len(_pods_of(number, moving)), size, allowed if budgeted else None, limits)
    if fresh and limits.globally:
        assert len(moving) <= limits.globally
    if fresh and limits.per_namespace:
        assert len(moving) <= limits.per_namespace
    for node in {one.spec.node_name for one in fresh}:
        if limits.per_node:
            assert sum(one.spec.node_name == node for one in moving) <= limits.per_node


def _pods_of(workload: int, pods: list[Pod]) -> list[Pod]:
    return [one for one in pods if one.metadata.name.startswith(f"w{workload}-")]


def _check_workload(moving: int, size: int, allowed: int | None, limits: MigrationLimits) -> None:
    """A workload of this size moves no more pods than its budget and its limits allow."""
    if allowed is not None:
        assert moving <= allowed
    for configured in (limits.per_workload, limits.unavailable_per_workload):
        if configured is not None or allowed is None:
            assert moving <= max_unavailable(size, configured)


def test_every_waiting_job_is_admitted_in_the_end() -> None:
    """Carrying out what is admitted, round by round, moves every pod."""
    left, rounds = moves(10), 0
    while left:
        found = judged(left, web(10))
        done = {name for name, one in found.items() if isinstance(one, JobAdmitted)}
        assert done
        left = [one for one in left if one.metadata.name not in done]
        rounds += 1
    assert rounds == 5


def test_five_thousand_jobs_take_well_under_a_second() -> None:
    pods = [
        pod(f"w{number % 500}-{number}", owner=f"CloneSet w{number % 500}", labels={"app": f"w{number % 500}"})
        for number in range(5000)
    ]
    budgets = [pdb(f"w{number}", app=f"w{number}", allowed=3) for number in range(0, 500, 2)]
    jobs = [job(one.metadata.name, pod=one.metadata.name) for one in pods]
    around = cluster_context(pods, budgets=budgets)
    start = time.process_time()
    found = arbitrate(
        jobs, around, MigrationArguments(limits=MigrationLimits(per_node=None, workload_window=FIVE_MINUTES))
    )
    seconds = time.process_time() - start
    assert len(found) == 5000
    assert seconds < 2.0, "about 0.2 s when nothing else runs"


# --- what is around a pod ---------------------------------------------------------------------------------------------


def test_arbitration_reads_the_claims_of_the_namespace_and_the_labels_of_the_node() -> None:
    disk = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    claim = convert(
        {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}, PersistentVolumeClaim
    )
    [found] = arbitrate(
        [job()], cluster_context([pod("web-1", volumes=[disk])], claims={"shop": {"data": claim}}), MigrationArguments()
    )
    assert isinstance(found, JobRefused) and "ReadWriteOncePod" in found.message
    fast = MigrationArguments(protections=Protections(node_selector=parse_label_selector("disk=fast")))
    [found] = arbitrate([job()], cluster_context([pod("web-1")], node_labels={"n1": {"disk": "fast"}}), fast)
    assert isinstance(found, JobAdmitted)


@pytest.mark.parametrize(
    ("value", "verdict"), [(50, JobRefused), (101, JobAdmitted)], ids=["below the pod's", "above it"]
)
def test_a_threshold_may_be_the_name_of_a_priority_class(value: int, verdict: type) -> None:
    around = cluster_context([pod("web-1", priority=100)], priority_classes={"mid": value})
    [found] = arbitrate(moves(1), around, MigrationArguments(protections=Protections(priority_threshold_name="mid")))
    assert isinstance(found, verdict)

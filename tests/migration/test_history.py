from __future__ import annotations

from msgspec.structs import replace

from restow.migration.history import MigrationHistory, eviction_intended_at
from restow.model.objects import ObjectReference, Pod, PodMigrationJob
from tests.eviction.eviction_objects import deployment, pod, replica_set
from tests.migration.job_fixture import NOW, cluster_context, job

MOVED = {"restow.sh/moved-at": "2027-01-15T08:00:00Z"}
OWNERS = [deployment(), replica_set()]


def moved(name: str, successor: str, **more: str) -> PodMigrationJob:
    """A job that succeeded, and its successor."""
    one = job(name, pod="gone", phase="Succeed", annotations=more)
    reference = ObjectReference(namespace="shop", name=successor, uid=successor)
    return replace(one, status=replace(one.status, pod_ref=reference))


def history(jobs: list[PodMigrationJob], *pods: object) -> MigrationHistory:
    around = cluster_context(pods, OWNERS)  # type: ignore[arg-type]
    return MigrationHistory(jobs, around.pods, around.workloads)


def test_a_move_shown_by_both_its_job_and_its_pod_counts_once() -> None:
    assert history([moved("a", "web-1")], pod("web-1", annotations=MOVED)).times_moved("web") == 1


def test_moves_shown_by_only_the_pod_or_only_the_job_count() -> None:
    known = history(
        [moved("a", "web-1"), moved("b", "lost", **{"restow.sh/workload": "web"})],
        pod("web-1", annotations=MOVED),
        pod("web-2", annotations=MOVED),
        pod("web-3"),
        pod("web-4"),
    )
    assert known.times_moved("web") == 3


def test_workload_of_a_job_by_annotation_else_by_pod_else_by_successor() -> None:
    known = history([], pod("web-1"), pod("web-2"))
    assert known.workload_uid(job(pod="web-1", annotations={"restow.sh/workload": "other"})) == "other"
    assert known.workload_uid(job(pod="web-1")) == "web"
    assert known.workload_uid(moved("a", "web-2")) == "web"
    assert known.workload_uid(moved("a", "missing")) is None


def test_only_failed_jobs_for_the_same_pod_count() -> None:
    tries = [job("a", phase="Failed"), job("b", phase="Aborted"), job("c", pod="web-2", phase="Failed")]
    assert history(tries, pod("web-1")).failed_jobs(pod("web-1")) == 1


def test_evicted_at_is_the_time_of_the_eviction_condition() -> None:
    assert eviction_intended_at(job(phase="Running", evicted=NOW - 5)) == NOW - 5
    assert eviction_intended_at(job(phase="Running")) is None


def timed_out(
    name: str, *, pod: str = "gone", evicted: float | None = NOW - 600, phase: str = "Failed"
) -> PodMigrationJob:
    """A job whose time was over before its successor was seen."""
    return job(name, pod=pod, phase=phase, evicted=evicted, annotations={"restow.sh/workload": "web"})


def seated(name: str, reservation: str) -> Pod:
    return pod(name, annotations={**MOVED, "restow.sh/reservation": f"shop/{reservation}/pod/0"})


def test_a_pod_that_was_evicted_was_moved_however_its_job_ended() -> None:
    assert history([timed_out("a"), timed_out("b", phase="Aborted")]).times_moved("web") == 2
    assert history([timed_out("a", evicted=None)]).times_moved("web") == 0
    assert history([timed_out("a", phase="Running")]).times_moved("web") == 0


def test_a_pod_that_stays_was_not_moved_and_a_terminating_one_was() -> None:
    assert history([timed_out("a", pod="web-1")], pod("web-1")).times_moved("web") == 0
    leaving = pod("web-1", deletionTimestamp=MOVED["restow.sh/moved-at"])
    assert history([timed_out("a", pod="web-1")], leaving).times_moved("web") == 1


def test_a_successor_after_the_end_of_its_job_does_not_count_twice() -> None:
    late = seated("web-1", "restow-a")
    assert history([timed_out("a")], late).times_moved("web") == 1
    assert (
        history([timed_out("a")], late, seated("web-2", "restow-b"), pod("web-3", annotations=MOVED)).times_moved("web")
        == 3
    )
    assert history([timed_out("a"), timed_out("b")], late).times_moved("web") == 2

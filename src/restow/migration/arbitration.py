"""Arbitration: which of the waiting jobs may begin, and what the others wait for.

Goes in: all jobs, and the cluster around them. Comes out: one verdict per waiting job, in the order in which they were
considered. A job that may never begin is refused; one that may, but not now, is told the limit it waits for with its
numbers. The order is that of the design: quality of service, priority, costs, migration priority, failed tries, how
often the workload was moved, how much of it is on its way; then age and name, so that it is total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from restow.eviction.costs import deletion_cost, eviction_cost
from restow.eviction.protections import Surroundings, lasting_refusal, unknown
from restow.eviction.qos_and_priority import priority, qos
from restow.migration.arguments import Arguments
from restow.migration.cluster_context import Candidate, Scene, candidate
from restow.migration.conditions import is_ended, is_running
from restow.migration.history import History, find_pod
from restow.migration.job_annotations import PRIORITY_ANNOTATION, number_on
from restow.migration.limit_usage import Full, Occupation, scarcity
from restow.migration.limits import smallness
from restow.migration.waves import Waves
from restow.model.objects import JobMode, JobReason, Pod, PodMigrationJob

_ORDER: Final = "its order"


class Admitted(msgspec.Struct, frozen=True):
    """The job may begin."""

    job: PodMigrationJob
    message: str
    workload: str | None
    """The UID of its pod's workload, to be written on the job (history.WORKLOAD_ANNOTATION)."""
    failed_before: tuple[str, ...] = ()
    """Moves of its plan that failed: what it was planned on may have changed."""


class Waiting(msgspec.Struct, frozen=True):
    """The job may begin later."""

    job: PodMigrationJob
    limit: str
    message: str
    again: float | None = None
    """When, if nothing happens until then."""


class Refused(msgspec.Struct, frozen=True):
    """The job may never begin."""

    job: PodMigrationJob
    reason: JobReason
    message: str


Verdict = Admitted | Waiting | Refused


class Standing(msgspec.Struct, frozen=True):
    """How the pod of a job that was admitted stands now; each in a sentence, if there is anything to say."""

    forbidden: str | None = None
    unheard: str | None = None
    out_of_order: str | None = None
    scarce: str | None = None


def arbitrate(jobs: Iterable[PodMigrationJob], scene: Scene, arguments: Arguments) -> list[Verdict]:
    """Judge the jobs that wait for admission and have a pod; paused ones do not wait."""
    everyone = list(jobs)
    history = History(everyone, scene.pods, scene.workloads)
    occupation = Occupation(everyone, scene, history, arguments.limits)
    waves = Waves(everyone)
    verdicts: list[Verdict] = []
    candidates: list[Candidate] = []
    for job in everyone:
        if is_ended(job) or is_running(job) or job.spec.paused:
            continue
        pod = find_pod(scene.pods, job.spec.pod_ref)
        if pod is None:
            continue
        one = candidate(job, pod, scene)
        reason = forbidden(one, scene, arguments)
        if reason is not None:
            told = f"pod {pod.metadata.namespace}/{pod.metadata.name} cannot be moved: {reason}"
            verdicts.append(Refused(job, JobReason.FORBIDDEN_MIGRATE_POD, told))
        elif missing := unheard(one, scene, arguments):
            verdicts.append(Waiting(job, "news", f"waits for news: {missing}"))
        elif others := out_of_order(one, scene):
            verdicts.append(Waiting(job, _ORDER, others))
        else:
            candidates.append(one)
    verdicts += [_judge(one, waves, occupation) for one in in_order(candidates, history, occupation)]
    return verdicts


def standing(one: Candidate, scene: Scene, arguments: Arguments, is_leaving: Callable[[Pod], bool]) -> Standing:
    """What was asked before a job began, and may be otherwise by now. `is_leaving` says of pods that seem to stay
    whether they were sent away."""
    scarce = scarcity(one, scene, arguments.limits, is_leaving)
    return Standing(
        forbidden=forbidden(one, scene, arguments),
        unheard=unheard(one, scene, arguments),
        out_of_order=out_of_order(one, scene),
        scarce=_waits_for(scarce) if scarce is not None else None,
    )


def forbidden(one: Candidate, scene: Scene, arguments: Arguments) -> str | None:
    """Why a job may never begin, nor go on, by what its pod is."""
    workload = one.workload
    reason = lasting_refusal(one.pod, arguments.protections, _surroundings(one, scene))
    if reason is None and workload is not None:
        reason = smallness(workload.replicas, arguments.limits)
    if reason is None and arguments.only_with_seat and _mode(one.job, arguments) == JobMode.EVICT_DIRECTLY:
        reason = "nodeFit is set, and without a reservation nothing shows that another node fits"
    return reason


def unheard(one: Candidate, scene: Scene, arguments: Arguments) -> str | None:
    """What has to be known of a job's pod before it may begin, or go on, and is not."""
    return unknown(one.pod, arguments.protections, _surroundings(one, scene))


def out_of_order(one: Candidate, scene: Scene) -> str | None:
    """Whom a job has to wait for, because nobody would be made in its pod's place."""
    others = scene.workloads.out_of_order(one.pod)
    return f"waits for {_ORDER}: {others}" if others else None


def _surroundings(one: Candidate, scene: Scene) -> Surroundings:
    pod, workload = one.pod, one.workload
    return Surroundings(
        now=scene.now,
        replicas=workload.replicas if workload else None,
        end_by_loss=scene.workloads.end_by_loss(pod),
        appointed=scene.workloads.appointed(pod),
        beside=scene.sharing.beside(pod),
        claims=scene.claims.get(pod.metadata.namespace or "", {}),
        budgets=one.budgets,
        node_labels=scene.node_labels.get(pod.spec.node_name or "", {}),
        priority_classes=scene.priority_classes,
    )


def _mode(job: PodMigrationJob, arguments: Arguments) -> str:
    return job.spec.mode or arguments.default_mode


# --- order ------------------------------------------------------------------------------------------------------------


def migration_priority(job: PodMigrationJob) -> int:
    """What its annotation says; 0 where it says nothing that is a number."""
    return number_on(job, PRIORITY_ANNOTATION) or 0


def in_order(candidates: Iterable[Candidate], history: History, occupation: Occupation) -> list[Candidate]:
    """The candidates, the first to be considered first.

    How much of a workload is on its way counts as it will be when a job's turn has come, so that jobs of many
    workloads take turns.
    """
    ranked = sorted((_rank(one, history), _age(one), one) for one in candidates)
    ahead: dict[str, int] = {}
    placed = []
    for rank, age, one in ranked:
        uid = one.workload.uid if one.workload else one.pod.metadata.uid
        ahead[uid] = ahead.get(uid, occupation.migrating(uid) - 1) + 1
        placed.append((rank, ahead[uid], age, one))
    return [one for *_, one in sorted(placed, key=lambda entry: entry[:3])]


def _rank(one: Candidate, history: History) -> tuple[int, ...]:
    pod, workload = one.pod, one.workload
    return (
        -qos(pod),
        -priority(pod),
        eviction_cost(pod),
        deletion_cost(pod),
        -migration_priority(one.job),
        history.failures(pod),
        history.moves(workload.uid) if workload else 0,
    )


def _age(one: Candidate) -> tuple[str, str]:
    """Older first, then by name, which is unique."""
    metadata = one.job.metadata
    return metadata.creation_timestamp or "", metadata.name


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _judge(one: Candidate, waves: Waves, occupation: Occupation) -> Verdict:
    job = one.job
    blocker = waves.blocker(job)
    if blocker is not None:
        return Waiting(job, "waves", f"waits for its wave: {blocker}")
    full = occupation.full(one)
    if full is not None:
        return Waiting(job, full.limit, _waits_for(full), full.again)
    occupation.admit(one)
    failed = waves.failed_before(job)
    message = "every limit allows it"
    if failed:
        message += f"; {len(failed)} earlier moves of its plan failed, so it is validated anew"
    return Admitted(job, message, one.workload.uid if one.workload else None, tuple(failed))


def _waits_for(full: Full) -> str:
    return f"waits for {full.limit}: {full.numbers}"

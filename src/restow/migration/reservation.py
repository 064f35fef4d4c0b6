"""The reservation of a migration: the seat that is asked for in advance for the successor of a pod.

Goes in: a job, its pod, the pod's owners, and the template that they create pods from. Comes out: one reservation with
one seat, built from what the pod would be like if created now, and at least as large as the pod is. Every field that is
set in the job's template overrules what was built. Whatever the template says, the pod's own node is excluded, a target
node is the only one allowed, and the reservation is annotated with the UID of the migrating pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from restow.migration.successor_spec import possible_successors, successor_keeps_name
from restow.model.affinity import bound_to
from restow.model.object_key import Key
from restow.model.objects import (
    MatchPolicy,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodMigrationJob,
    PodTemplate,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationSpec,
    ReservationTemplate,
    TaskSpec,
)
from restow.model.problems import Problem
from restow.model.reservations.reservation_annotations import MIGRATING_ANNOTATION, MOVED_FROM_ANNOTATION
from restow.model.reservations.validation import spec_problems
from restow.model.resources import enlarged_vector, template_requests
from restow.model.times import format_duration

JOB_LABEL = "restow.sh/migration-job"
"""On a reservation: the job it was created for, by name; by UID if the name is too long for a label."""
TARGET_ANNOTATION = "restow.sh/target-node"
"""On a job, or on its template: the only node that the pod may move to."""
TASK = "pod"
_REVISIONS = ("ReplicaSet", "ReplicationController")
"""Controllers that another controller replaces at every revision of its own."""
_TEMPLATE = "spec.reservationOptions.template"
_PREFIX = "restow-"
_LONGEST_LABEL = 63

S = TypeVar("S", bound=msgspec.Struct)


def reservation_name(job: PodMigrationJob) -> str:
    return _PREFIX + job.metadata.uid


def reservation_key(job: PodMigrationJob) -> Key:
    """Namespace and name of a job's reservation: the one that it refers to, else the one that is created for it."""
    options, inside = job.spec.reservation_options, job.spec.pod_ref.namespace or ""
    reference = options.reservation_ref if options else None
    if reference is None or not reference.name:
        return inside, reservation_name(job)
    return reference.namespace or inside, reference.name


def job_uid_of_reservation(reservation: Reservation) -> str | None:
    """The UID of the job that a reservation was created for; None if it was not created for one."""
    name = reservation.metadata.name
    if JOB_LABEL not in (reservation.metadata.labels or {}) or not name.startswith(_PREFIX):
        return None
    return name.removeprefix(_PREFIX)


def is_made_for_job(reservation: Reservation, job: PodMigrationJob) -> bool:
    """Whether this controller created a reservation for this job: only such reservations are extended or deleted."""
    return job_uid_of_reservation(reservation) == job.metadata.uid


def holds_room(reservation: Reservation) -> bool:
    """Whether a reservation holds room on some node."""
    phase = reservation.status.state.phase
    return phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING) and bool(reservation.status.placements)


def target_node(job: PodMigrationJob) -> str | None:
    """The target node of a job, if it has one."""
    places = (job.metadata, _job_template(job).metadata)
    return next((node for meta in places if (node := (meta.annotations or {}).get(TARGET_ANNOTATION))), None)


def template_problems(job: PodMigrationJob, pod: Pod | None, owners: Iterable[OwnerReference]) -> list[Problem]:
    """What is wrong with a job's template: a migration cannot do it, or no valid reservation comes of it."""
    problems = list(_find_template_problems(job))
    if problems or pod is None or job.spec.reservation_options is None or job.spec.reservation_options.template is None:
        return problems
    built = build_reservation(job, pod, owners, seconds=1.0)
    return [Problem(f"{_TEMPLATE}.{problem.path}", problem.message) for problem in spec_problems(built)]


def _find_template_problems(job: PodMigrationJob) -> Iterator[Problem]:
    template, path = _job_template(job), _TEMPLATE
    if template.metadata.name or template.metadata.generate_name:
        yield Problem(f"{path}.metadata.name", "reservations of migrations are named by their job; leave it out")
    namespace = job.spec.pod_ref.namespace
    if template.metadata.namespace not in (None, "", namespace):
        where = template.metadata.namespace
        yield Problem(f"{path}.metadata.namespace", f"{where} is not {namespace}, the namespace of the pod")
    tasks = template.spec.tasks or []
    seats = sum(1 if task.replicas is None else task.replicas for task in tasks)
    if tasks and seats != 1:
        yield Problem(f"{path}.spec.tasks", f"{seats} seats are asked for, one pod takes 1")
    if template.spec.match_policy == MatchPolicy.TEMPLATE:
        why = "the seat excludes the pod's own node, which its successor does not, so only Fits matches"
        yield Problem(f"{path}.spec.matchPolicy", why)
    if (template.spec.min_available or 1) != 1:
        yield Problem(f"{path}.spec.minAvailable", f"{template.spec.min_available} is not 1, the seats there are")


def build_reservation(
    job: PodMigrationJob,
    pod: Pod,
    owners: Iterable[OwnerReference],
    *,
    seconds: float,
    queue: str | None = None,
    successor_template: PodTemplate | None = None,
) -> Reservation:
    """The reservation to create. Unless the job's template says otherwise, it lives for so many seconds, rounded up, is
    charged to the successor's queue, and is for a pod of `successor_template` that may be as large as this one."""
    template = _job_template(job)
    task = next((task for task in template.spec.tasks or () if task.replicas != 0), TaskSpec())
    lifetime = None if template.spec.ttl or template.spec.expires else format_duration(max(ceil(seconds), 1))
    built = ReservationSpec(
        scheduler_name=pod.spec.scheduler_name,
        min_available=1,
        queue=queue,
        owners=list(_seat_owners(pod, owners)),
        ttl=lifetime,
        match_policy=MatchPolicy.FITS,
    )
    merged = _overrule_with_set_fields(built, template.spec)
    return Reservation(
        metadata=_build_metadata(job, pod, template.metadata),
        spec=replace(merged, tasks=[_build_task(job, pod, task, successor_template)]),
    )


def _job_template(job: PodMigrationJob) -> ReservationTemplate:
    options = job.spec.reservation_options
    return (options.template if options else None) or ReservationTemplate()


def _build_metadata(job: PodMigrationJob, pod: Pod, given: ObjectMeta) -> ObjectMeta:
    name = job.metadata.name
    label = name if len(name) <= _LONGEST_LABEL else job.metadata.uid
    seat_annotations = {MIGRATING_ANNOTATION: pod.metadata.uid, MOVED_FROM_ANNOTATION: pod.spec.node_name or ""}
    return ObjectMeta(
        name=reservation_name(job),
        namespace=pod.metadata.namespace,
        labels={**(given.labels or {}), JOB_LABEL: label},
        annotations={**(given.annotations or {}), **seat_annotations},
    )


def _seat_owners(pod: Pod, chain: Iterable[OwnerReference]) -> Iterator[ReservationOwner]:
    """The owners of the seat: in a StatefulSet the pod of the same name, so that no other pod of the set takes it; else
    every pod of the workload, of this revision or the next. The chain ends there: a controller above the workload may
    have other workloads."""
    owners, meta = list(chain), pod.metadata
    if successor_keeps_name(owners):
        reference = ObjectReference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name)
        yield ReservationOwner(object=reference)
        return
    for owner in owners:
        yield _controlled_by(owner, pod)
        if owner.kind not in _REVISIONS:
            return


def _controlled_by(owner: OwnerReference, pod: Pod) -> ReservationOwner:
    reference = ObjectReference(
        api_version=owner.api_version,
        kind=owner.kind,
        namespace=pod.metadata.namespace,
        name=owner.name,
        uid=owner.uid,
    )
    return ReservationOwner(controller=reference)


def _build_task(job: PodMigrationJob, pod: Pod, given: TaskSpec, template: PodTemplate | None) -> TaskSpec:
    successors = possible_successors(pod, template)
    spec = replace(successors[-1].spec, node_name=None, scheduling_gates=None)
    if not given.template.spec.containers:
        for successor in successors:  # the seat must be large enough for each: the pod may have been resized
            spec = enlarged_vector(spec, template_requests(successor.spec))
    spec = _overrule_with_set_fields(spec, given.template.spec)
    labels = {**(successors[-1].metadata.labels or {}), **(given.template.metadata.labels or {})}
    return TaskSpec(
        name=given.name or TASK,
        replicas=1,
        template=PodTemplate(
            metadata=ObjectMeta(labels=labels or None, annotations=given.template.metadata.annotations),
            spec=bound_to(spec, target_node(job), but_not=pod.spec.node_name),
        ),
        reservation_node_names=given.reservation_node_names,
    )


def _overrule_with_set_fields(built: S, given: S) -> S:
    """What was built, overruled by every field that is set in the job's template."""
    unset = type(given)()
    fields = {name: getattr(given, name) for name in given.__struct_fields__}
    return replace(built, **{name: value for name, value in fields.items() if value != getattr(unset, name)})

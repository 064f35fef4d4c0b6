"""Rules about the job itself: is its spec valid, and does it still name the pod that it was admitted for?

Goes in: facts in any state of the move. Comes out: the step that ends the job; None while the rule has nothing against
it.
"""

from __future__ import annotations

from restow.migration.facts import Facts
from restow.migration.facts_before import LIFETIME_WITHOUT_TTL, SEAT_OUTLIVES_POD_BY
from restow.migration.reservation import template_problems
from restow.migration.steps import Step, fail_job, forbid_move
from restow.model.objects import JobReason
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.times import MAX_DURATION_SECONDS, format_duration


def spec_is_invalid(facts: Facts) -> Step | None:
    reference, wanted = facts.job.spec.pod_ref, facts.reservation_reference
    if not reference.namespace or not reference.name:
        return fail_job(facts, JobReason.INVALID_POD_REF, "spec.podRef: namespace and name of the pod are required")
    if reference.kind not in (None, "", "Pod"):
        return fail_job(facts, JobReason.INVALID_POD_REF, f"spec.podRef.kind: {reference.kind} is not Pod")
    if facts.options.problem:
        return fail_job(facts, JobReason.INVALID_SPEC, facts.options.problem)
    problems = template_problems(facts.job, facts.migrating_pod, facts.owner_chain)
    if problems:
        return fail_job(facts, JobReason.INVALID_SPEC, "; ".join(map(str, problems)))
    path = "spec.reservationOptions.reservationRef"
    if wanted is not None and wanted.uid and not wanted.name:
        return fail_job(facts, JobReason.INVALID_SPEC, f"{path}.name: the name of the reservation is required")
    if wanted is not None and wanted.namespace not in (None, "", reference.namespace):
        message = f"{path}.namespace: {wanted.namespace} is not {reference.namespace}, the namespace of the pod"
        return fail_job(facts, JobReason.INVALID_SPEC, message)
    return _seat_would_outlive_any_reservation(facts)


def _seat_would_outlive_any_reservation(facts: Facts) -> Step | None:
    """A seat must last for the job's ttl and the pod's grace period, and no reservation may live longer than the
    longest duration. Checked only while the pod exists, because the grace period is the pod's."""
    if facts.migrating_pod is None:
        return None
    spec, ttl, grace = facts.job.spec, facts.options.ttl, facts.options.grace_period_of(facts.migrating_pod)
    if grace + max(ttl, LIFETIME_WITHOUT_TTL) + SEAT_OUTLIVES_POD_BY <= MAX_DURATION_SECONDS:
        return None
    limit = "its seat would have to live longer than 292 years, the maximum"
    if grace <= ttl:
        field = "spec.ttl" if spec.ttl else "defaultJobTTL"
        return fail_job(facts, JobReason.INVALID_SPEC, f"{field}: {format_duration(ttl)} is too long: {limit}")
    message = f"{grace:.0f} s is too long: {limit}"
    if spec.delete_options is not None and spec.delete_options.grace_period_seconds is not None:
        return fail_job(facts, JobReason.INVALID_SPEC, f"spec.deleteOptions.gracePeriodSeconds: {message}")
    return forbid_move(facts, f"its grace period of {message}")


def pod_has_another_name(facts: Facts) -> Step | None:
    """A pod is looked up by UID, but its absence by name: under a wrong name it would seem to be gone."""
    if facts.migrating_pod is None:
        return None
    meta, reference = facts.migrating_pod.metadata, facts.job.spec.pod_ref
    if (meta.namespace, meta.name) == (reference.namespace, reference.name):
        return None
    message = f"spec.podRef: the pod with UID {facts.pod_uid} is {meta.namespace}/{meta.name}, not {facts.pod_name}"
    return fail_job(facts, JobReason.INVALID_POD_REF, message)


def pod_is_not_the_admitted_one(facts: Facts) -> Step | None:
    """The pod of an admitted job cannot be changed: that another pod is absent must not pass for its eviction."""
    own = facts.reservation if facts.owns_reservation else None
    admitted = migrating_pod(own) if own is not None else facts.pod_uid
    if facts.pod_uid and facts.pod_uid == admitted:
        return None
    message = f"spec.podRef.uid: {facts.pod_uid!r} is not the pod that was admitted"
    return fail_job(facts, JobReason.INVALID_POD_REF, message)

"""Before the pod leaves: is there anything to move, is its seat ready, and may it be evicted now?

Goes in: facts about a job whose pod is still where it was. Comes out: the step that gets it closer to leaving.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.conditions import (
    ConditionUpdate,
    eviction_repeated_status,
    is_in_doubt,
    job_seconds_used,
    with_conditions,
)
from restow.migration.facts import Facts, Permission
from restow.migration.history import evicted_at
from restow.migration.reservation import build_reservation, target_node
from restow.migration.steps import (
    Evict,
    Extend,
    ReadLive,
    RecordReservation,
    Reserve,
    Step,
    Wait,
    dry_run_result,
    fail_job,
    forbid_move,
    pod_name,
    reservation_exists,
    reservation_failure,
    reservation_failure_reason,
    wait_briefly,
    wait_for,
)
from restow.migration.successor_seats import (
    free_seats,
    seat_key,
    why_reservation_excludes_successor,
    why_seat_does_not_suit,
)
from restow.model.kinds import RESERVATION
from restow.model.objects import (
    JobConditionType,
    JobMode,
    JobReason,
    ObjectReference,
    Pod,
    Reservation,
    ReservationPhase,
)
from restow.model.pods import is_finished, scheduler_of
from restow.model.reservations.matching import why_not_moved_from_named
from restow.model.reservations.spec import expires_at
from restow.model.times import TimeError, time_of
from restow.model.words import number_of

MARGIN = 120.0
"""Seconds that a seat must outlive the pod's grace period by."""
UNLIMITED = 3600.0
"""Seconds that the reservation of a job without limit lives for, before it is extended."""
ASK_AGAIN = 10.0


def unmovable(facts: Facts) -> Step | None:
    """What of the pod's state makes a move impossible; what protects it is for arbitration to say."""
    pod = facts.migrating_pod
    assert pod is not None, "it is not missing"
    if facts.conflicting_job is not None:
        return forbid_move(facts, f"job {facts.conflicting_job} moves it already")
    if not pod.spec.node_name:
        return forbid_move(facts, "it is not on a node yet")
    if facts.options.mode == JobMode.EVICT_DIRECTLY:
        return None
    if is_finished(pod):
        return forbid_move(facts, f"it is over ({pod.status.phase}) and needs no seat")
    if not facts.owner_chain:
        told = "mode EvictDirectly does without, where evictAllBarePods allows it"
        return forbid_move(facts, f"no controller would make a successor for its seat; {told}")
    if target_node(facts.job) == pod.spec.node_name:
        return forbid_move(facts, f"it is on node {pod.spec.node_name} already, where it is to go")
    return _of_others(facts) or _insisting(facts)


def _of_others(facts: Facts) -> Step | None:
    """A pod whose successor would not be for us to schedule, or not yet: its controller makes others now."""
    pod, comes, names = facts.possible_successors[0], facts.possible_successors[-1], facts.options.scheduler_names
    told = "as its controller makes pods now"
    if names is not None and scheduler_of(comes) != scheduler_of(pod) and scheduler_of(comes) not in names:
        return forbid_move(facts, f"its successor would be of scheduler {scheduler_of(comes)}, {told}")
    if comes.spec.scheduling_gates:
        gates = ", ".join(one.name for one in comes.spec.scheduling_gates)
        return forbid_move(facts, f"its successor would wait behind scheduling gates ({gates}), {told}")
    return None


def _insisting(facts: Facts) -> Step | None:
    """A pod whose successor takes a seat of one reservation only, which is not the one that this job is to use."""
    name = facts.named_reservation
    given = facts.reservation_reference.name if facts.reservation_reference else None
    return forbid_move(facts, why_not_moved_from_named(name)) if name and name != given else None


def _stranded(facts: Facts) -> Step | None:
    """A pod whose successor would not be scheduled now: the others of its gang may come, or come back."""
    if facts.gang_problem is None:
        return None
    return _held_up(facts, JobReason.GANG, facts.gang_problem, again=facts.now + ASK_AGAIN)


def _out_of_order(facts: Facts) -> Step | None:
    """A pod whose controller would make nobody in its place now."""
    if facts.waits_for_order is None:
        return None
    return _held_up(facts, JobReason.ORDER, facts.waits_for_order, again=facts.now + ASK_AGAIN)


def prepare(facts: Facts) -> Step:
    """The pod is still there: get it a seat, then let it go."""
    movable = _protected, _unheard, _of_others, _insisting, _stranded, _out_of_order
    for rule in (*movable, _no_reservation, _not_referred, _just_made):
        step = rule(facts)
        if step is not None:
            return step
    facts = facts.with_status(with_conditions(facts.job.status, _created(facts), now=facts.now))
    for rule in (_lost_reservation, _misplaced, _short_lived, _outnumbered, _shut_out, _unplaced, _astray):
        step = rule(facts)
        if step is not None:
            return step
    seat = facts.seat
    assert seat is not None, "rules above see to it"
    if (
        facts.eviction_dry_run is not None and seat.node_name not in facts.nodes
    ):  # others came before it while all was read
        return ReadLive(dry_run_eviction=True)
    status = with_conditions(
        replace(facts.job.status, node_name=seat.node_name),
        ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, True, "", f"a seat is kept on node {seat.node_name}"),
        now=facts.now,
    )
    facts = facts.with_status(status)
    return _evict(facts, _leaving(facts, f"its seat is on node {seat.node_name}"))


def evict_directly(facts: Facts) -> Step:
    """No seat is asked for."""
    held_up = _protected(facts) or _unheard(facts) or unmovable(facts) or _out_of_order(facts)
    return held_up or _evict(facts, _leaving(facts, "nothing is reserved for it"))


def _protected(facts: Facts) -> Step | None:
    """What was not so when the job was admitted: a pod that must not be evicted now is not, whoever began to."""
    return forbid_move(facts, facts.forbidden) if facts.forbidden else None


def _unheard(facts: Facts) -> Step | None:
    """Whether it must not be evicted is not known."""
    if facts.missing_information is None:
        return None
    told = f"waits for news: {facts.missing_information}"
    return _held_up(facts, JobReason.NEWS, told, again=facts.now + ASK_AGAIN)


def _no_reservation(facts: Facts) -> Step | None:
    if reservation_exists(facts.reservation):
        return _another(facts)
    if facts.reservation_reference is not None and facts.reservation_reference.name:
        where = f"{facts.reservation_reference.namespace or facts.job.spec.pod_ref.namespace}/{facts.reservation_reference.name}"
        return fail_job(facts, JobReason.MISSING_RESERVATION, f"reservation {where} does not exist")
    if facts.refusal is not None:
        return _not_created(facts, facts.refusal)
    pod = facts.migrating_pod
    assert pod is not None, "it has not left"
    forbidden = unmovable(facts)
    if forbidden is not None:
        return forbidden
    held_up = _stopped(facts) or _scarce(facts) or _tried(facts)
    if held_up is not None:
        return held_up
    reservation = build_reservation(
        facts.job,
        pod,
        facts.owner_chain,
        seconds=_lifetime(facts),
        queue=facts.successor_queue,
        successor_template=facts.successor_template,
    )
    if facts.options.dry_run:
        return _rehearsed(facts, f"reservation {pod.metadata.namespace}/{reservation.metadata.name} would be created")
    return Reserve(facts.job.status, reservation)


def _rehearsed(facts: Facts, what: str) -> Step:
    """What would be done, and what would come of it as things are."""
    outlook = facts.predicted_seat
    if outlook is None:
        return dry_run_result(facts, what)
    if not outlook.node:
        return dry_run_result(facts, f"{what}, and no node would take it now: {outlook.reason}")
    told = f"{what}, on node {outlook.node} as it is now; then pod {pod_name(facts)} would be evicted"
    return dry_run_result(facts, told)


def _another(facts: Facts) -> Step | None:
    """A reservation that only has the name of the one that the job refers to."""
    assert facts.reservation is not None, "one exists"
    meant, meta = facts.reservation_reference.uid if facts.reservation_reference else None, facts.reservation.metadata
    if not meant or meant == meta.uid:
        return None
    gone = f"reservation {meta.namespace}/{meta.name} with UID {meant} is gone"
    return fail_job(facts, JobReason.MISSING_RESERVATION, f"{gone}; another with UID {meta.uid} has its name")


def _not_created(facts: Facts, said: Permission) -> Step:
    if said.is_final:
        return fail_job(facts, JobReason.FAILED_CREATE_RESERVATION, said.message)
    failed = ConditionUpdate(
        JobConditionType.RESERVATION_CREATED, False, JobReason.FAILED_CREATE_RESERVATION, said.message
    )
    return wait_for(facts, failed, again=facts.now + (said.retry_after or ASK_AGAIN))


def _not_referred(facts: Facts) -> Step | None:
    if facts.reservation_reference is not None and facts.reservation_reference.name:
        return None
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    meta = reservation.metadata
    name = f"{meta.namespace}/{meta.name}"
    if not facts.owns_reservation:
        told = f"reservation {name} exists and was not made for this job"
        return fail_job(facts, JobReason.FAILED_CREATE_RESERVATION, told)
    reference = ObjectReference(
        api_version=RESERVATION.api_version,
        kind=RESERVATION.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )
    return RecordReservation(facts.job.status, reference)


def _just_made(facts: Facts) -> Step | None:
    """A reservation that nobody can have looked at yet: most are placed in a moment, and waiting needs no words."""
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    if reservation.status.state.phase:
        return None
    return wait_briefly(facts, time_of(reservation.metadata.creation_timestamp))


def _created(facts: Facts) -> ConditionUpdate:
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    name = f"{reservation.metadata.namespace}/{reservation.metadata.name}"
    told = f"was made for pod {pod_name(facts)}" if facts.owns_reservation else "was given to the job"
    return ConditionUpdate(JobConditionType.RESERVATION_CREATED, True, "", f"reservation {name} {told}")


def _lost_reservation(facts: Facts) -> Step | None:
    """A reservation that failed, or that others used up, while the pod is still where it was."""
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    state = reservation.status.state
    if state.phase == ReservationPhase.FAILED:
        return fail_job(facts, reservation_failure_reason(reservation), reservation_failure(reservation))
    takers = [one.pod_ref.name or "" for one in facts.placements if one.pod_ref is not None]
    if takers and len(takers) == len(facts.placements):
        return forbid_move(facts, f"its seat was taken by {', '.join(takers)}")
    if state.phase == ReservationPhase.SUCCEEDED:
        return forbid_move(facts, f"reservation {reservation.metadata.name} was used up")
    return None


def _misplaced(facts: Facts) -> Step | None:
    """A seat that the successor could not take: where the pod is already, on a node that changed, or of others."""
    reservation, pod = facts.reservation, facts.migrating_pod
    assert reservation is not None, "one exists"
    assert pod is not None, "it has not left"
    others = why_reservation_excludes_successor(
        reservation, facts.certain_successor, facts.owner_chain, facts.options.scheduler_names, facts.successor_group
    )
    problem = others or _too_late(facts, reservation) or _useless(facts, reservation, pod) or _amiss(facts)
    if problem:
        return forbid_move(facts, problem)
    if facts.seats_on_fit_nodes or not facts.usable_seats:
        return None
    name = facts.usable_seats[0].node_name
    return fail_job(facts, JobReason.UNSCHEDULABLE, f"its seat is on node {name}, but {facts.unfitness(name)}")


def _too_late(facts: Facts, reservation: Reservation) -> str:
    """Why the successor would sit down elsewhere; empty if it would not."""
    if facts.earlier_reservation is None:
        return ""
    told = f"reservation {facts.earlier_reservation} is for the same pods and comes before {reservation.metadata.name}"
    return f"{told}: its successor would take a seat of that"


def _useless(facts: Facts, reservation: Reservation, pod: Pod) -> str:
    """Why none of the free seats is one that the successor will find; empty if one is, or if there is no seat yet."""
    free = free_seats(reservation)
    if facts.usable_seats or facts.jobs_ahead or not free:
        return ""
    elsewhere = (one for one in free if one.node_name != pod.spec.node_name)
    why = next((why_seat_does_not_suit(reservation, one, facts.possible_successors) for one in elsewhere), "")
    return why or f"the seat kept for it is on node {pod.spec.node_name}, where it is already"


def _amiss(facts: Facts) -> str:
    """Why the seats are not where the pod is to go, which may be said after they were found; empty if one is."""
    target, usable = target_node(facts.job), [one.node_name for one in facts.usable_seats]
    if target is None or not usable or target in usable:
        return ""
    return f"it is to go to node {target}, and the seat kept for it is on node {usable[0]}"


def _short_lived(facts: Facts) -> Step | None:
    """A seat must outlive the pod's grace period by some minutes."""
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    try:
        end = expires_at(reservation)
    except TimeError:  # the scheduler refuses it and says so
        return None
    need = facts.grace + MARGIN
    if end is None or end - facts.now >= need:
        return None
    if facts.owns_reservation:
        return Extend(facts.job.status, reservation, facts.now + _lifetime(facts))
    left = (
        f"lives for another {max(end - facts.now, 0):.0f} s, {need:.0f} s are needed (the grace period and two minutes)"
    )
    told = f"reservation {reservation.metadata.name} {left}: let it live longer, or refer to another"
    return fail_job(facts, JobReason.RESERVATION_EXPIRED, told)


def _unplaced(facts: Facts) -> Step | None:
    reservation = facts.reservation
    assert reservation is not None, "one exists"
    state = reservation.status.state
    if state.phase == ReservationPhase.AVAILABLE and facts.seat is not None:
        return _changed(facts, reservation)
    if state.phase == ReservationPhase.WAITING or (state.phase == ReservationPhase.AVAILABLE and facts.usable_seats):
        told = f"its seat cannot be relied on yet: {state.message or ''}"
        return wait_for(
            facts, ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, ReservationPhase.WAITING, told)
        )
    if not state.message:
        told = f"no seat has been found yet{_away(facts)}"
        return wait_for(
            facts, ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, ReservationPhase.PENDING, told)
        )
    told = f"no seat{_away(facts)}: {state.message}"
    if is_in_doubt(facts.job.status):
        return fail_job(facts, JobReason.UNSCHEDULABLE, f"earlier moves of its plan failed, and now: {told}")
    return wait_for(
        facts, ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, JobReason.UNSCHEDULABLE, told)
    )


def _outnumbered(facts: Facts) -> Step | None:
    """No more seats than there are jobs before this one. Which of them their pods take is known once they have: it may
    be others."""
    reservation, suited = facts.reservation, facts.seats_on_fit_nodes
    assert reservation is not None, "one exists"
    if not facts.jobs_ahead or len(suited) > len(facts.jobs_ahead) or not free_seats(reservation):
        return None
    has = f"reservation {reservation.metadata.name} has {number_of(len(suited), 'free seat')} for it"
    return _not_relied_on(facts, f"{has} and for jobs before it: {', '.join(facts.jobs_ahead)}")


def _astray(facts: Facts) -> Step | None:
    """A seat before which the successor may come to another that is where the pod is already, or not where it is to go.
    Those of jobs before it may take that one."""
    seat = facts.seat
    assert seat is not None, "rules before see to it"
    back, target = facts.seat_on_current_node if facts.eviction_dry_run is not None else None, target_node(facts.job)
    if back is not None:
        told = f"its successor may take the seat on node {back.node_name}, where it is already"
    elif target is not None and seat.node_name != target:
        told = f"it is to go to node {target}, and its successor would take the seat on node {seat.node_name}"
    else:
        return None
    return _not_relied_on(facts, told) if facts.jobs_ahead else forbid_move(facts, told)


def _shut_out(facts: Facts) -> Step | None:
    """A seat that the successor could not take now, and nobody has said so yet: it may be that no scheduler runs who
    could, or that the seat was not made for such a pod."""
    kept_from = [one for one in facts.seats_on_fit_nodes if seat_key(one) in facts.rejected_seats]
    if not kept_from or facts.seat is not None:
        return None
    why = f"node {kept_from[0].node_name} would not take its successor: {facts.rejected_seats[seat_key(kept_from[0])]}"
    return _not_relied_on(facts, why)


def _not_relied_on(facts: Facts, why: str) -> Step:
    told = f"its seat cannot be relied on: {why}"
    waiting = ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, ReservationPhase.WAITING, told)
    return wait_for(facts, waiting, again=facts.now + ASK_AGAIN)


def _changed(facts: Facts, reservation: Reservation) -> Step | None:
    """What its status says is of another spec, until the scheduler has looked at this one."""
    looked_at = reservation.status.observed_generation
    if looked_at in (None, reservation.metadata.generation):
        return None
    told = f"reservation {reservation.metadata.name} was changed, and the scheduler has not looked at it since"
    return wait_for(
        facts, ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, ReservationPhase.PENDING, told)
    )


def _away(facts: Facts) -> str:
    """Where a seat is looked for, if it was for us to say."""
    if not facts.owns_reservation:
        return ""
    assert facts.migrating_pod is not None, "it has not left"
    target = target_node(facts.job)
    return (
        f" on node {target}, where it is to go"
        if target
        else f" outside node {facts.migrating_pod.spec.node_name}, which it leaves"
    )


def _lifetime(facts: Facts) -> float:
    """The seconds that a reservation made now should live: as long as the job may take, and the pod to leave."""
    limit = facts.options.ttl
    left = limit - job_seconds_used(facts.job, facts.now) if limit > 0 else UNLIMITED
    return left + facts.grace + MARGIN


# --- evicting ---------------------------------------------------------------------------------------------------------


def _leaving(facts: Facts, seat: str) -> str:
    assert facts.migrating_pod is not None, "it has not left"
    return f"pod {pod_name(facts)} leaves node {facts.migrating_pod.spec.node_name}; {seat}"


def _evict(facts: Facts, told: str) -> Step:
    """Everything is ready: evict, if nothing holds evictions up."""
    pod = facts.migrating_pod
    assert pod is not None, "it has not left"
    if facts.refusal is not None:
        return _refused(facts, facts.refusal, withdraw=True)
    just_sent = None if facts.is_fresh else wait_briefly(facts, evicted_at(facts.job))
    held_up = just_sent or _stopped(facts) or _scarce(facts)
    if held_up is None and facts.rate_limit is not None and not facts.rate_limit.is_allowed:
        held_up = _held_up(
            facts, JobReason.EVICT_QPS, facts.rate_limit.message, again=facts.now + facts.rate_limit.retry_after
        )
    held_up = held_up or _tried(facts)
    if held_up is not None:
        return held_up
    if facts.options.dry_run:
        return dry_run_result(facts, f"{told}: it would be evicted")
    said = ConditionUpdate(JobConditionType.EVICTION, False, JobReason.EVICTING, told)
    return Evict(eviction_repeated_status(with_conditions(facts.job.status, said, now=facts.now), now=facts.now), pod)


def _stopped(facts: Facts) -> Step | None:
    if facts.stop_reason is None:
        return None
    return _held_up(facts, JobReason.STOPPED, facts.stop_reason, again=None)


def _scarce(facts: Facts) -> Step | None:
    """Others of its workload were lost since the job was admitted."""
    if facts.workload_unavailable is None:
        return None
    return _held_up(
        facts, JobReason.MAX_UNAVAILABLE_PER_WORKLOAD, facts.workload_unavailable, again=facts.now + ASK_AGAIN
    )


def _tried(facts: Facts) -> Step | None:
    """What the API server says to the eviction, before anything is done for it."""
    if facts.eviction_dry_run is None:
        return ReadLive(dry_run_eviction=True)
    return None if facts.eviction_dry_run.is_allowed else _refused(facts, facts.eviction_dry_run)


def _refused(facts: Facts, said: Permission, *, withdraw: bool = False) -> Step:
    again = facts.now + (said.retry_after or ASK_AGAIN)
    return _held_up(facts, JobReason.FAILED_EVICT, said.message, again=again, withdraw=withdraw)


def _held_up(facts: Facts, reason: JobReason, message: str, *, again: float | None, withdraw: bool = False) -> Step:
    """Not now. An eviction that may be on its way stays recorded, unless it is certain that it is not."""
    if facts.is_evicting and not withdraw:
        return Wait(facts.job.status, again)
    return wait_for(facts, ConditionUpdate(JobConditionType.EVICTION, False, reason, message), again=again)

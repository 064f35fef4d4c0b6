"""Rules about the reservation and its seats: will the successor get a seat, on another node, that lasts?

Goes in: facts about a pod that stays and a reservation that exists. Comes out: the step that ends the job, or waits for
the scheduler; None while the rule has nothing against the seat. A job that a user gave a reservation with several seats
shares it with other jobs: which seats their pods take is only known once they have.
"""

from __future__ import annotations

from restow.migration.conditions import ConditionUpdate, is_in_doubt
from restow.migration.facts_before import SEAT_OUTLIVES_POD_BY, SeatFacts
from restow.migration.reservation import target_node
from restow.migration.steps import (
    RETRY_AFTER,
    Extend,
    RecordReservation,
    Step,
    fail_job,
    forbid_move,
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
from restow.model.counted_nouns import counted_noun
from restow.model.kinds import RESERVATION
from restow.model.objects import JobConditionType, JobReason, ObjectReference, Placement, ReservationPhase
from restow.model.reservations.spec import expires_at
from restow.model.times import TimeError, time_of

# --- the reservation --------------------------------------------------------------------------------------------------


def reservation_was_replaced(facts: SeatFacts) -> Step | None:
    """Another reservation has the name of the one that the job refers to by UID."""
    uid, meta = facts.reservation_reference.uid if facts.reservation_reference else None, facts.reservation.metadata
    if not uid or uid == meta.uid:
        return None
    gone = f"reservation {meta.namespace}/{meta.name} with UID {uid} is gone"
    return fail_job(facts, JobReason.MISSING_RESERVATION, f"{gone}; another with UID {meta.uid} has its name")


def reservation_is_not_recorded(facts: SeatFacts) -> Step | None:
    """The reservation was created, and the job's spec does not name it yet."""
    if facts.reservation_reference is not None and facts.reservation_reference.name:
        return None
    meta = facts.reservation.metadata
    if not facts.owns_reservation:
        message = f"reservation {meta.namespace}/{meta.name} exists and was not created for this job"
        return fail_job(facts, JobReason.FAILED_CREATE_RESERVATION, message)
    reference = ObjectReference(
        api_version=RESERVATION.api_version,
        kind=RESERVATION.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )
    return RecordReservation(facts.job.status, reference)


def reservation_was_just_created(facts: SeatFacts) -> Step | None:
    """The scheduler cannot have looked at it yet. It places most reservations at once, so the status says nothing."""
    if facts.reservation.status.state.phase:
        return None
    return wait_briefly(facts, time_of(facts.reservation.metadata.creation_timestamp))


def reservation_is_lost(facts: SeatFacts) -> Step | None:
    """The reservation failed, or other pods consumed all its seats, while the pod is still on its node."""
    reservation = facts.reservation
    phase, seats = reservation.status.state.phase, reservation.status.placements or ()
    if phase == ReservationPhase.FAILED:
        return fail_job(facts, reservation_failure_reason(reservation), reservation_failure(reservation))
    consumers = [seat.pod_ref.name or "" for seat in seats if seat.pod_ref is not None]
    if consumers and len(consumers) == len(seats):
        return forbid_move(facts, f"its seat is consumed by {', '.join(consumers)}")
    if phase == ReservationPhase.SUCCEEDED:
        return forbid_move(facts, f"all seats of reservation {reservation.metadata.name} are consumed")
    return None


def reservation_expires_too_early(facts: SeatFacts) -> Step | None:
    """A seat must outlive the pod's grace period by two minutes. Our own reservation is extended first."""
    reservation = facts.reservation
    try:
        end = expires_at(reservation)
    except TimeError:  # the scheduler fails the reservation for it, with the reason
        return None
    needed = facts.grace_period + SEAT_OUTLIVES_POD_BY
    if end is None or end - facts.now >= needed:
        return None
    if facts.owns_reservation:
        return Extend(facts.job.status, reservation, facts.now + facts.reservation_lifetime)
    left = f"expires in {max(end - facts.now, 0):.0f} s, {needed:.0f} s are needed (the grace period and two minutes)"
    message = f"reservation {reservation.metadata.name} {left}: extend it, or refer to another"
    return fail_job(facts, JobReason.RESERVATION_EXPIRED, message)


# --- its seats --------------------------------------------------------------------------------------------------------


def no_seat_for_successor(facts: SeatFacts) -> Step | None:
    """The reservation is for other pods, or all its seats are of the wrong size or in the wrong place."""
    reservation = facts.reservation
    problem = (
        why_reservation_excludes_successor(
            reservation,
            facts.certain_successor,
            facts.owner_chain,
            facts.options.scheduler_names,
            facts.successor_group,
        )
        or _earlier_reservation_wins(facts)
        or _no_seat_suits(facts)
        or _no_seat_on_target_node(facts)
    )
    if problem:
        return forbid_move(facts, problem)
    if facts.seats_on_fit_nodes or not facts.usable_seats:
        return None
    node = facts.usable_seats[0].node_name
    return fail_job(facts, JobReason.UNSCHEDULABLE, f"its seat is on node {node}, but {facts.why_unfit(node)}")


def _earlier_reservation_wins(facts: SeatFacts) -> str:
    """Why the scheduler would give the successor a seat of another reservation; empty if it would not."""
    earlier = facts.earlier_reservation
    if earlier is None:
        return ""
    order = f"reservation {earlier} is for the same pods and comes before {facts.reservation.metadata.name}"
    return f"{order}, so its successor would take a seat of {earlier}"


def _no_seat_suits(facts: SeatFacts) -> str:
    """Why none of the free seats suits the successor; empty if one does, or if there is no seat yet. While jobs are
    ahead, their successors may take the seats that do not suit this one."""
    free = free_seats(facts.reservation)
    if facts.usable_seats or facts.jobs_ahead or not free:
        return ""
    node = facts.pod.spec.node_name
    elsewhere = (seat for seat in free if seat.node_name != node)
    why = next((why_seat_does_not_suit(facts.reservation, seat, facts.possible_successors) for seat in elsewhere), "")
    return why or f"the seat kept for it is on node {node}, where it already is"


def _no_seat_on_target_node(facts: SeatFacts) -> str:
    """Why the seats are not on the job's target node, which may be set after they were placed; empty if one is."""
    target, nodes = target_node(facts.job), [seat.node_name for seat in facts.usable_seats]
    if target is None or not nodes or target in nodes:
        return ""
    return f"its target is node {target}, but the seat kept for it is on node {nodes[0]}"


def too_few_seats_for_jobs_ahead(facts: SeatFacts) -> Step | None:
    """There are not more seats than jobs ahead. Their pods may take other seats, so this is not final."""
    name, seats = facts.reservation.metadata.name, facts.seats_on_fit_nodes
    if not facts.jobs_ahead or len(seats) > len(facts.jobs_ahead) or not free_seats(facts.reservation):
        return None
    count = f"reservation {name} has {counted_noun(len(seats), 'free seat')} for it"
    return _seat_is_unreliable(facts, f"{count} and for jobs before it: {', '.join(facts.jobs_ahead)}")


def filters_reject_successor(facts: SeatFacts) -> Step | None:
    """The scheduler's filters would not let the successor into its seat now, and no condition of the reservation says
    so yet: the scheduler may not be running, or a user made the seat for other pods."""
    rejected = [seat for seat in facts.seats_on_fit_nodes if seat_key(seat) in facts.rejected_seats]
    if not rejected or facts.seat is not None:
        return None
    why = facts.rejected_seats[seat_key(rejected[0])]
    return _seat_is_unreliable(facts, f"node {rejected[0].node_name} does not fit its successor: {why}")


def successor_may_land_elsewhere(facts: SeatFacts, seat: Placement) -> Step | None:
    """The successor may be given another seat first: one on the pod's own node, or one that is not on the target node.
    The successors of jobs ahead may take that seat, so that is not final."""
    # Seats on the pod's own node are only checked by the filters together with the dry run of the eviction.
    here = facts.seat_on_current_node(seat) if facts.eviction_dry_run is not None else None
    target = target_node(facts.job)
    if here is not None:
        why = f"its successor may take the seat on node {here.node_name}, where it already is"
    elif target is not None and seat.node_name != target:
        why = f"its target is node {target}, but its successor would take the seat on node {seat.node_name}"
    else:
        return None
    return _seat_is_unreliable(facts, why) if facts.jobs_ahead else forbid_move(facts, why)


def _seat_is_unreliable(facts: SeatFacts, why: str) -> Step:
    message = f"its seat cannot be relied on: {why}"
    update = ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, ReservationPhase.WAITING, message)
    return wait_for(facts, update, retry_at=facts.now + RETRY_AFTER)


# --- waiting for the scheduler ----------------------------------------------------------------------------------------


def wait_for_seat(facts: SeatFacts) -> Step:
    """The scheduler has not placed the reservation, or the seat's room is still being vacated."""
    state = facts.reservation.status.state
    if state.phase == ReservationPhase.WAITING or (state.phase == ReservationPhase.AVAILABLE and facts.usable_seats):
        return _wait_for_scheduler(facts, ReservationPhase.WAITING, f"its seat is not ready yet: {state.message or ''}")
    where = _where_seats_are_sought(facts)
    if not state.message:
        return _wait_for_scheduler(facts, ReservationPhase.PENDING, f"no seat has been found yet{where}")
    message = f"no seat{where}: {state.message}"
    if is_in_doubt(facts.job.status):
        return fail_job(facts, JobReason.UNSCHEDULABLE, f"earlier moves of its plan failed, and now: {message}")
    return _wait_for_scheduler(facts, JobReason.UNSCHEDULABLE, message)


def reservation_change_is_unobserved(facts: SeatFacts) -> Step | None:
    """The status is that of another spec until the scheduler has observed this one."""
    observed, meta = facts.reservation.status.observed_generation, facts.reservation.metadata
    if observed in (None, meta.generation):
        return None
    message = f"the scheduler has not observed the last change of reservation {meta.name} yet"
    return _wait_for_scheduler(facts, ReservationPhase.PENDING, message)


def _wait_for_scheduler(facts: SeatFacts, reason: str, message: str) -> Step:
    return wait_for(facts, ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, False, reason, message))


def _where_seats_are_sought(facts: SeatFacts) -> str:
    """Where the scheduler looks for a seat, if the reservation is ours and so by our node affinity."""
    if not facts.owns_reservation:
        return ""
    target = target_node(facts.job)
    return f" on its target node {target}" if target else f" outside its own node {facts.pod.spec.node_name}"


SEAT_RULES = (
    reservation_is_lost,
    no_seat_for_successor,
    reservation_expires_too_early,
    too_few_seats_for_jobs_ahead,
    filters_reject_successor,
)
"""What is checked before the seat itself is looked at."""

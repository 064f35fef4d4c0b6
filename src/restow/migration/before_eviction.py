"""Before the eviction: get the pod a seat, make sure that its successor will take that seat, then evict the pod.

Goes in: facts about a job whose pod stays. Comes out: the step that brings the eviction closer. The rules of each part
are in `pod_rules`, `seat_rules` and `eviction_rules`.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.conditions import ConditionUpdate, with_conditions
from restow.migration.eviction_rules import (
    evict_pod,
    eviction_would_be_refused,
    evictions_are_stopped,
    workload_is_unavailable,
)
from restow.migration.facts import WriteAnswer
from restow.migration.facts_before import FactsBeforeEviction, SeatFacts
from restow.migration.pod_rules import (
    MOVE_RULES,
    pod_cannot_move,
    pod_is_protected,
    protections_are_unknown,
    successor_waits_for_order,
)
from restow.migration.reservation import build_reservation
from restow.migration.seat_rules import (
    SEAT_RULES,
    reservation_change_is_unobserved,
    reservation_is_not_recorded,
    reservation_was_just_created,
    reservation_was_replaced,
    successor_may_land_elsewhere,
    wait_for_seat,
)
from restow.migration.steps import (
    RETRY_AFTER,
    ReadLive,
    Reserve,
    Step,
    end_dry_run,
    fail_job,
    first_step,
    reservation_exists,
    wait_for,
)
from restow.model.objects import JobConditionType, JobReason, ReservationPhase


def prepare_eviction(facts: FactsBeforeEviction) -> Step:
    """Mode ReservationFirst: no eviction without a seat that the successor will take."""
    # 1. May the pod still move, and would its successor be scheduled?
    step = first_step(facts, MOVE_RULES)
    if step is not None:
        return step
    # 2. Create the reservation, and record which one it is.
    if not reservation_exists(facts.reservation):
        return _create_reservation(facts)
    seats = facts.with_reservation(facts.reservation)
    step = first_step(seats, (reservation_was_replaced, reservation_is_not_recorded, reservation_was_just_created))
    if step is not None:
        return step
    # 3. Will the successor get a seat of it, on another node, that lasts?
    seats = seats.with_status(with_conditions(facts.job.status, _reservation_created(seats), now=facts.now))
    step = first_step(seats, SEAT_RULES)
    if step is not None:
        return step
    # 4. Which seat is kept for it, and is there none that it may be given first?
    seat = seats.seat if seats.reservation.status.state.phase == ReservationPhase.AVAILABLE else None
    if seat is None:
        return wait_for_seat(seats)
    step = reservation_change_is_unobserved(seats) or successor_may_land_elsewhere(seats, seat)
    if step is not None:
        return step
    if seats.eviction_dry_run is not None and seat.node_name not in seats.nodes:
        # Jobs came ahead of this one while the facts were read, so the seat is another one, whose node was not read.
        return ReadLive(dry_run_eviction=True)
    # 5. Evict.
    kept = ConditionUpdate(JobConditionType.RESERVATION_SCHEDULED, True, "", f"a seat is kept on node {seat.node_name}")
    status = with_conditions(replace(seats.job.status, node_name=seat.node_name), kept, now=seats.now)
    return evict_pod(seats.with_status(status), f"its seat is on node {seat.node_name}")


def evict_directly(facts: FactsBeforeEviction) -> Step:
    """Mode EvictDirectly: no seat is kept for the successor."""
    step = first_step(facts, (pod_is_protected, protections_are_unknown, pod_cannot_move, successor_waits_for_order))
    return step or evict_pod(facts, "no seat is kept for its successor")


def _create_reservation(facts: FactsBeforeEviction) -> Step:
    reference = facts.reservation_reference
    if reference is not None and reference.name:
        where = f"{reference.namespace or facts.job.spec.pod_ref.namespace}/{reference.name}"
        return fail_job(facts, JobReason.MISSING_RESERVATION, f"reservation {where} does not exist")
    if facts.refusal is not None:
        return _creation_refused(facts, facts.refusal)
    # A reservation takes room from others, so it is not created for an eviction that would be held back anyway.
    held_back = pod_cannot_move, evictions_are_stopped, workload_is_unavailable, eviction_would_be_refused
    step = first_step(facts, held_back)
    if step is not None:
        return step
    reservation = build_reservation(
        facts.job,
        facts.pod,
        facts.owner_chain,
        seconds=facts.reservation_lifetime,
        queue=facts.successor_queue,
        successor_template=facts.successor_template,
    )
    if facts.options.dry_run:
        return _end_dry_run(
            facts, f"reservation {reservation.metadata.namespace}/{reservation.metadata.name} would be created"
        )
    return Reserve(facts.job.status, reservation)


def _creation_refused(facts: FactsBeforeEviction, refusal: WriteAnswer) -> Step:
    if refusal.is_final:
        return fail_job(facts, JobReason.FAILED_CREATE_RESERVATION, refusal.message)
    update = ConditionUpdate(
        JobConditionType.RESERVATION_CREATED, False, JobReason.FAILED_CREATE_RESERVATION, refusal.message
    )
    return wait_for(facts, update, retry_at=facts.now + (refusal.retry_after or RETRY_AFTER))


def _end_dry_run(facts: FactsBeforeEviction, would: str) -> Step:
    """What would be done, and on which node the seat would be as things are."""
    seat = facts.predicted_seat
    if seat is None:
        return end_dry_run(facts, would)
    if not seat.node:
        return end_dry_run(facts, f"{would}, and no node fits it now: {seat.reason}")
    return end_dry_run(facts, f"{would}, on node {seat.node} as of now; then pod {facts.pod_name} would be evicted")


def _reservation_created(facts: SeatFacts) -> ConditionUpdate:
    meta = facts.reservation.metadata
    origin = f"was created for pod {facts.pod_name}" if facts.owns_reservation else "was given to the job"
    message = f"reservation {meta.namespace}/{meta.name} {origin}"
    return ConditionUpdate(JobConditionType.RESERVATION_CREATED, True, "", message)

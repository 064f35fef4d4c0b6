"""What the status says of a reservation: its phase, and which spec it was decided for.

The status names the spec that the scheduler decided about last: observedGeneration, observedOwners, observedQueue and
observedRequests. Until it decides about a change, the seats keep what they were granted, and a seat is not assigned
if the next decision could refuse it.
"""

from __future__ import annotations

from restow.model.objects import (
    Quantities,
    Reservation,
    ReservationPhase,
    TaskSpec,
)
from restow.model.quantity import QuantityError
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.owners import Owners
from restow.model.reservations.spec import requests_per_task, seats_per_task
from restow.model.resources import parse_amounts, template_requests, vector_fits


def is_ended(reservation: Reservation) -> bool:
    """Whether a reservation is Succeeded or Failed: no pod will consume one of its seats any more."""
    return reservation.status.state.phase in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)


def is_being_deleted(reservation: Reservation) -> bool:
    """Whether a reservation has a deletionTimestamp: it holds nothing, even while a finalizer keeps the object."""
    return reservation.metadata.deletion_timestamp is not None


def is_available(reservation: Reservation) -> bool:
    """Whether the status of a reservation guarantees its seats."""
    return reservation.status.state.phase == ReservationPhase.AVAILABLE


def possible_consumers(reservation: Reservation) -> Owners:
    """The owners of the pods that may have consumed a seat: those of the spec, and those that the status still names,
    which the spec may have had when a pod on its way was assigned."""
    owners, before = reservation.spec.owners or (), reservation.status.observed_owners or ()
    return Owners.of([*owners, *(owner for owner in before if owner not in owners)])


def status_names_all_owners(reservation: Reservation) -> bool:
    """Whether observedOwners has every owner of the spec, or was never written.

    Pods of an owner that the status does not name yet are assigned no seat: after a leader change, the next scheduler
    could not tell their annotations from forged ones.
    """
    named = reservation.status.observed_owners
    return named is None or all(owner in named for owner in reservation.spec.owners or ())


def has_undecided_change(reservation: Reservation) -> bool:
    """Whether the spec changed after the status was last worked out from it."""
    observed = reservation.status.observed_generation
    return observed is not None and observed != reservation.metadata.generation


def assignable_seats(reservation: Reservation) -> dict[str, int]:
    """How many seats of each task may be assigned to pods: those that the spec (still) has.

    While a change of the spec is undecided, seats that request more than they were granted, or are charged to another
    queue, are not assigned: the change may be refused, and a pod that is already bound there could not be.
    """
    wants, status = seats_per_task(reservation), reservation.status
    if not has_undecided_change(reservation):
        return wants
    if (reservation.spec.queue or DEFAULT_QUEUE) != (status.observed_queue or DEFAULT_QUEUE):
        return {}
    given = status.observed_requests or {}
    tasks = reservation.spec.tasks or ()
    return {task.name: wants[task.name] for task in tasks if _asks_for_no_more(task, given.get(task.name))}


def _asks_for_no_more(task: TaskSpec, given: Quantities | None) -> bool:
    try:
        return vector_fits(template_requests(task.template.spec), parse_amounts(given))
    except QuantityError:  # an unreadable request was never granted
        return False


def has_undecided_increase(reservation: Reservation) -> bool:
    """Whether an unconsumed seat requests more than observedRequests granted it.

    It does not help that other seats of the reservation request less, or are given up: they may be on other nodes.
    """
    if not has_undecided_change(reservation):
        return False
    status = reservation.status
    held = {placement.task for placement in status.placements or () if placement.pod_ref is None}
    given = status.observed_requests or {}
    try:
        return not all(
            vector_fits(request, parse_amounts(given.get(task)))
            for task, request in requests_per_task(reservation).items()
            if task in held
        )
    except QuantityError:  # an unreadable request was never granted
        return True

"""TODO"""

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
from restow.model.resources import amounts, fits, template_requests


def is_ended(reservation: Reservation) -> bool:
    """Whether it succeeded or failed: nobody will take a seat of it any more."""
    return reservation.status.state.phase in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)


def is_being_deleted(reservation: Reservation) -> bool:
    """Whether somebody is deleting it: it holds nothing any more, whoever's finalizer keeps the object."""
    return reservation.metadata.deletion_timestamp is not None


def is_available(reservation: Reservation) -> bool:
    """Whether it says that its seats can be relied on."""
    return reservation.status.state.phase == ReservationPhase.AVAILABLE


def possible_consumers(reservation: Reservation) -> Owners:
    """Who may have taken a seat of a reservation: its owners, and those that it had when that was last written down."""
    owners, before = reservation.spec.owners or (), reservation.status.observed_owners or ()
    return Owners.of([*owners, *(one for one in before if one not in owners)])


def status_names_all_owners(reservation: Reservation) -> bool:
    """Whether its status names all of its owners (or never named any): no others are given a seat, or whoever comes
    next could not tell them from forgers."""
    named = reservation.status.observed_owners
    return named is None or all(one in named for one in reservation.spec.owners or ())


def has_undecided_change(reservation: Reservation) -> bool:
    """Whether somebody changed its spec after it was last decided about."""
    observed = reservation.status.observed_generation
    return observed is not None and observed != reservation.metadata.generation


def assignable_seats(reservation: Reservation) -> dict[str, int]:
    """How many seats of each task may be given away: those that the spec (still) has. Of one that was changed, as long
    as nothing was decided about that, none that asks for more than it was given, or another queue for it: it may be
    refused, and a pod in it could not be."""
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
        return fits(template_requests(task.template.spec), amounts(given))
    except QuantityError:  # whatever that is, nobody gave it
        return False


def has_undecided_increase(reservation: Reservation) -> bool:
    """Whether a seat that nobody took asks for more than it was given when it was last decided about, which its status
    says. That others of its seats ask for less, or are given up, changes nothing: they may be elsewhere."""
    if not has_undecided_change(reservation):
        return False
    status = reservation.status
    held = {one.task for one in status.placements or () if one.pod_ref is None}
    given = status.observed_requests or {}
    try:
        return not all(
            fits(request, amounts(given.get(task))) for task, request in requests_per_task(reservation).items() if task in held
        )
    except QuantityError:  # whatever that is, nobody gave it
        return True

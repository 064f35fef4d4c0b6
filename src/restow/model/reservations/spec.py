"""TODO"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from restow.model.objects import (
    Placement,
    Reservation,
    TaskSpec,
)
from restow.model.resources import Vector, add, scale, template_requests
from restow.model.times import format_duration, parse_duration, parse_time, time_of


def seat_count(task: TaskSpec) -> int:
    """How many seats a task has; one where it does not say."""
    return 1 if task.replicas is None else max(task.replicas, 0)


def seats_per_task(reservation: Reservation) -> dict[str, int]:
    """How many seats each task has."""
    return {task.name: seat_count(task) for task in reservation.spec.tasks or ()}


def ttl_until(reservation: Reservation, time: float) -> str:
    """The ttl with which a reservation lasts until then: a second at least, because none at all is for ever."""
    created = time_of(reservation.metadata.creation_timestamp)
    return format_duration(max(time - created, 1.0) if created is not None else 1.0)


def expires_at(reservation: Reservation) -> float | None:
    """When a reservation expires if it has not ended by then; None for never. Raises TimeError.

    A ttl of 0 is never, whatever `expires` says; otherwise the earlier of both counts.
    """
    spec, created = reservation.spec, reservation.metadata.creation_timestamp
    ttl = parse_duration(spec.ttl) if spec.ttl else None
    if ttl == 0:
        return None
    ends = [parse_time(spec.expires)] if spec.expires else []
    if ttl is not None and created:
        ends.append(parse_time(created) + ttl)
    return min(ends, default=None)


def is_expired(reservation: Reservation, now: float) -> bool:
    """Whether its time is over. Raises TimeError."""
    end = expires_at(reservation)
    return end is not None and now >= end


def seats_needed(reservation: Reservation) -> int:
    """How many seats must be held at once: minAvailable, which is all of them where it does not say."""
    return reservation.spec.min_available or sum(seats_per_task(reservation).values())


def is_for_scheduler(reservation: Reservation, names: frozenset[str]) -> bool:
    """Whether a scheduler of these names looks after it. One that names none anywhere is for any: it is our kind."""
    named = reservation.spec.scheduler_name
    if named and named not in names:
        return False
    for task in reservation.spec.tasks or ():
        named = task.template.spec.scheduler_name
        if named and named not in names:
            return False
    return True


def named_schedulers(reservation: Reservation) -> list[str]:
    """The schedulers that it names, by name: whoever plays all of them looks after it."""
    spec = reservation.spec
    named = {spec.scheduler_name, *(task.template.spec.scheduler_name for task in spec.tasks or ())}
    return sorted(name for name in named if name)


def requests_per_task(reservation: Reservation) -> dict[str, Vector]:
    """What a seat of each task asks for. Raises QuantityError."""
    return {task.name: template_requests(task.template.spec) for task in reservation.spec.tasks or ()}


def total_requests(reservation: Reservation, placements: Iterable[Placement]) -> Vector:
    """What the seats at these placements ask for together. Raises QuantityError."""
    each = requests_per_task(reservation)
    total: Vector = {}
    for task, count in Counter(one.task for one in placements).items():
        total = add(total, scale(each.get(task, {}), count))
    return total

"""What a reservation asks for: its seats per task, their requests, its schedulers and when it expires.

Everything here is read from the spec alone; `observed_spec` compares the spec with the status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from restow.model.objects import (
    Placement,
    Reservation,
    TaskSpec,
)
from restow.model.resources import Vector, add_vectors, scale_vector, template_requests
from restow.model.times import format_duration, parse_duration, parse_time, time_of


def seat_count(task: TaskSpec) -> int:
    """How many seats a task asks for; one without `replicas`."""
    return 1 if task.replicas is None else max(task.replicas, 0)


def seats_per_task(reservation: Reservation) -> dict[str, int]:
    """How many seats each task asks for, by task name."""
    return {task.name: seat_count(task) for task in reservation.spec.tasks or ()}


def ttl_until(reservation: Reservation, time: float) -> str:
    """The ttl that lets a reservation expire at `time`: at least one second, because a ttl of 0 never expires."""
    created = time_of(reservation.metadata.creation_timestamp)
    return format_duration(max(time - created, 1.0) if created is not None else 1.0)


def expires_at(reservation: Reservation) -> float | None:
    """When a reservation expires unless it ends before; None if it never does. Raises TimeError.

    A ttl of 0 means never, even beside `expires`. Otherwise the earlier of `expires` and creation + ttl counts.
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
    """Whether the expiry time of a reservation has come. Raises TimeError."""
    end = expires_at(reservation)
    return end is not None and now >= end


def seats_needed(reservation: Reservation) -> int:
    """How many seats must be held at once: minAvailable, or all seats of all tasks without it."""
    return reservation.spec.min_available or sum(seats_per_task(reservation).values())


def is_for_scheduler(reservation: Reservation, names: frozenset[str]) -> bool:
    """Whether every scheduler that a reservation names is one of `names`. A reservation that names none is ours: only
    we implement the kind."""
    named = reservation.spec.scheduler_name
    if named and named not in names:
        return False
    for task in reservation.spec.tasks or ():
        named = task.template.spec.scheduler_name
        if named and named not in names:
            return False
    return True


def named_schedulers(reservation: Reservation) -> list[str]:
    """The schedulers that a reservation names, in its spec and in the templates of its tasks, sorted."""
    spec = reservation.spec
    named = {spec.scheduler_name, *(task.template.spec.scheduler_name for task in spec.tasks or ())}
    return sorted(name for name in named if name)


def requests_per_task(reservation: Reservation) -> dict[str, Vector]:
    """What one seat of each task requests, by task name. Raises QuantityError."""
    return {task.name: template_requests(task.template.spec) for task in reservation.spec.tasks or ()}


def total_requests(reservation: Reservation, placements: Iterable[Placement]) -> Vector:
    """The sum of what the seats at these placements request. Raises QuantityError."""
    each = requests_per_task(reservation)
    total: Vector = {}
    for task, count in Counter(placement.task for placement in placements).items():
        total = add_vectors(total, scale_vector(each.get(task, {}), count))
    return total

"""Seats: the single places that a reservation holds, and the pods that stand in for them.

Goes in: a Reservation. Comes out: one `Seat` per placement in its status, with a stand-in pod made from the task's
template, which counts in every filter as the pod the seat is kept for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from restow.model.cluster.versions import version_number
from restow.model.object_key import key_of
from restow.model.objects import (
    Placement,
    Pod,
    Reservation,
)
from restow.model.reservations.observed import is_ended, possible_consumers
from restow.model.reservations.owners import Owners
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat_name import SeatName

UNKNOWN_VERSION = 2**63  # newer than any: never taken for seen


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    name: SeatName
    reservation_uid: str
    """The UID of its reservation."""
    node: str
    reserved_pod: Pod
    is_open: bool
    """Whether it is held for a consumer to come: nobody took it and the reservation has not ended."""
    recorded_consumer: str | None
    """The UID (lacking that, the name) of the pod that took it, according to the reservation's status."""
    version: int
    """The version of the reservation that first named this consumer."""
    owners: Owners
    """Who may take it."""
    possible_consumers: Owners
    """Who may have taken it."""
    queue: str
    """The queue it is charged to, as written."""


def seats_of(
    reservation: Reservation, placements: Iterable[Placement], known: Mapping[SeatName, Seat] | None = None
) -> Iterator[Seat]:
    """The seats of a reservation; a placement of a task that the spec does not have holds nothing. What `known` seats
    of the same spec say is not read again."""
    key, metadata, spec = key_of(reservation), reservation.metadata, reservation.spec
    tasks = {task.name: task for task in spec.tasks or ()}
    ended, owners, takers = is_ended(reservation), Owners.of(spec.owners or ()), possible_consumers(reservation)
    for placement in placements:
        task = tasks.get(placement.task)
        if task is None:
            continue
        name = SeatName.of(key, placement)
        consumer = (placement.pod_ref.uid or placement.pod_ref.name or "") if placement.pod_ref else None
        old = known.get(name) if known else None
        yield Seat(
            name=name,
            reservation_uid=metadata.uid,
            node=placement.node_name,
            reserved_pod=old.reserved_pod
            if old is not None
            else reserved_pod_of(name, task, spec.scheduler_name, spec.queue),
            is_open=not ended and consumer is None,
            recorded_consumer=consumer,
            version=version_number(metadata.resource_version) or UNKNOWN_VERSION,
            owners=old.owners if old is not None else owners,
            possible_consumers=old.possible_consumers if old is not None else takers,
            queue=spec.queue or "",
        )

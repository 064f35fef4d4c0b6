"""A seat: one task index of a reservation, placed on a node; and the states that it goes through.

Goes in: a Reservation and its placements. Comes out: one `Seat` per placement, with the reserved pod made from the
task's template, which counts in every filter as the pod that the seat is kept for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from restow.model.cluster.seen_versions import version_number
from restow.model.object_key import key_of
from restow.model.objects import Placement, Pod, Reservation
from restow.model.reservations.observed_spec import is_ended, possible_consumers
from restow.model.reservations.owners import Owners
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat_name import SeatName

UNKNOWN_VERSION = 2**63  # newer than any, so that no pod list ever counts as newer


class SeatState(enum.Enum):
    """Where a seat is in its life. R: its reserved pod takes room on the node; P: the pod in it does.

        a placement is decided, or the status shows it
          │
          v     Available, nothing undecided
        HELD R <─────────────────────────────> FREE R <──────────────┐
          │     Waiting, or a change undecided   │ ^                 │
          │                               vacate v │ hold_again      │ forget: the binding failed;
          │                                    LIFTED                │ or the pod is gone, see below
          │                                      │ assume            │
          │                                      v                   │
          │                                  ASSIGNED P ─────────────┤
          │                                      │ the watch shows the pod bound there
          │                                      v                   │
          │                                  OCCUPIED P ─────────────┘
          │                                      │ │
          │        the pod is gone, and nothing  │ │ status.placements[].podRef
          │        records its consumption yet   v │ names the pod
          │                                CLOSED R│
          │                                      │ │
          │                                      v v     the watch of pods has caught up with the record
          │                                  RECORDED R ────────────────────────────────────────> CONSUMED
          v
        RELEASED: the reservation ended before a pod consumed the seat

    The state is worked out from what the API shows and what this scheduler assumes, never stored: see `seat_states`.
    In a process that remembers no departed pods (see `SeatConsumers`), OCCUPIED returns to FREE where the scheduler
    has CLOSED. RECORDED is skipped where the watch already shows the pod, or its end. A record is final: a consumed
    index never opens again.
    """

    HELD = "placed, and not to be assigned now", True
    FREE = "may be assigned to a pod of an owner", True
    LIFTED = "takes no room while a pod is tried in it", False
    ASSIGNED = "a pod is assumed in it, and on its way to the node", False
    OCCUPIED = "a pod is bound into it, which the status does not record yet", False
    CLOSED = "its consumer is gone, which the status does not record yet", True
    RECORDED = "the status names its consumer, which the watch of pods does not show yet", True
    CONSUMED = "the status names its consumer, which counts for itself or is over", False
    RELEASED = "its reservation ended before a pod consumed it", False

    takes_room: bool
    """Whether the reserved pod takes room on the node."""

    def __init__(self, meaning: str, takes_room: bool) -> None:
        self.meaning = meaning
        self.takes_room = takes_room


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """What a placement says, with what the spec says of its task."""

    name: SeatName
    reservation_uid: str
    node: str
    reserved_pod: Pod
    is_open: bool
    """Whether it may still get a consumer: the status records none, and the reservation has not ended."""
    recorded_consumer: str | None
    """The UID (lacking that, the name) of the pod that consumed it, according to the status of the reservation."""
    version: int
    """The version of the reservation that first named this consumer, or that it has none."""
    owners: Owners
    """The owners of the pods that may consume it."""
    possible_consumers: Owners
    """The owners of the pods that may have consumed it: see `observed_spec.possible_consumers`."""
    queue: str
    """The queue that it is charged to, as written."""


def seats_of(
    reservation: Reservation, placements: Iterable[Placement], known: Mapping[SeatName, Seat] | None = None
) -> Iterator[Seat]:
    """The seats at these placements of a reservation; a placement of a task that the spec lacks makes no seat.

    `known` are seats made earlier from an equal spec: their reserved pods and owners are used again.
    """
    key, metadata, spec = key_of(reservation), reservation.metadata, reservation.spec
    tasks = {task.name: task for task in spec.tasks or ()}
    has_ended, owners = is_ended(reservation), Owners.of(spec.owners or ())
    consumers = possible_consumers(reservation)
    for placement in placements:
        task = tasks.get(placement.task)
        if task is None:
            continue
        name = SeatName.of(key, placement)
        recorded = (placement.pod_ref.uid or placement.pod_ref.name or "") if placement.pod_ref else None
        old = known.get(name) if known else None
        pod = old.reserved_pod if old is not None else reserved_pod_of(name, task, spec.scheduler_name, spec.queue)
        yield Seat(
            name=name,
            reservation_uid=metadata.uid,
            node=placement.node_name,
            reserved_pod=pod,
            is_open=not has_ended and recorded is None,
            recorded_consumer=recorded,
            version=version_number(metadata.resource_version) or UNKNOWN_VERSION,
            owners=old.owners if old is not None else owners,
            possible_consumers=old.possible_consumers if old is not None else consumers,
            queue=spec.queue or "",
        )

"""Successor fit: would the scheduler's filters let the successor into a seat now?

Goes in: what the informers show of everything that filters read, and the engine of the configured profile. Comes out:
the seats that the filters would refuse to the successor, each with the reason; or where a seat would be placed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from restow.client.subscriptions import Subscriptions
from restow.control.migrations.expected_successors import ExpectedSuccessors
from restow.control.view import ClusterView
from restow.migration.facts import PredictedSeat
from restow.migration.successor_seats import SeatKey, seat_key
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Placement, Pod, Reservation
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat import seats_of
from restow.model.reservations.seat_name import SeatName
from restow.ports import Clock
from restow.scheduling.engine import Engine
from restow.scheduling.explain import describe_plugin_failure
from restow.scheduling.framework import Cycle
from restow.scheduling.schedule_result import NodeFound
from restow.scheduling.seat_checks.admission_check import why_not_admitted

log = logging.getLogger(__name__)

_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACE,
    kinds.NODE,
    *kinds.STORAGE,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
    kinds.RESERVATION,
    kinds.POD,
)


class SuccessorFit:
    def __init__(
        self, subscriptions: Subscriptions, successors: ExpectedSuccessors, clock: Clock, engine: Engine
    ) -> None:
        self._cluster = ClusterView(subscriptions, _KINDS)
        self._successors = successors
        self._clock = clock
        self._engine = engine

    def configure(self, engine: Engine) -> None:
        """Ask the filters of another profile from now on."""
        self._engine = engine

    def predict_seat(self, reservation: Reservation, instead_of: str, *, now: float) -> PredictedSeat:
        """The node on which the scheduler would place the one seat of a reservation now, for the successor of the pod
        with the UID `instead_of`."""
        meta, spec = reservation.metadata, reservation.spec
        [task] = spec.tasks or []
        name = SeatName(meta.namespace or "", meta.name, task.name, 0)
        try:
            with self._cluster.paused(), self._cluster.snapshot.counting_only_room_of(instead_of):
                cycle = Cycle(reserved_pod_of(name, task, spec.scheduler_name, spec.queue), self._cluster.snapshot, now)
                placed = self._engine.find_node(cycle, explain=False)
                if isinstance(placed, NodeFound):
                    return PredictedSeat(placed.node)
                return PredictedSeat(reason=self._engine.diagnose(cycle).message)
        except Exception as error:  # a plugin may raise anything
            log.exception("filters failed", extra={"reservation": f"{meta.namespace}/{meta.name}"})
            return PredictedSeat(reason=describe_plugin_failure(error))

    def rejected_seats(
        self,
        reservation: Reservation,
        placements: Sequence[Placement],
        successor: Pod,
        jobs_ahead: Sequence[str],
        *,
        spare: int,
    ) -> dict[SeatKey, str]:
        """The seats that the filters would refuse to a successor now, each with the reason.

        The seats are asked about in order, while the successors of the jobs ahead sit down in them, until there is one
        for each of these, one for this successor, and so many to `spare`.
        """
        last = self._successors.incoming_pod(successor)
        before = [self._successors.incoming_pod_of_job(name) or last for name in jobs_ahead]
        seats = {seat_key(placement): next(seats_of(reservation, [placement]), None) for placement in placements}
        name = reservation.metadata.name
        unknown = {key: f"reservation {name} has no task {key[0]}" for key, seat in seats.items() if seat is None}
        known = [seat for seat in seats.values() if seat is not None]
        try:
            with self._cluster.paused():
                now, snapshot = self._clock.now(), self._cluster.snapshot
                answers = why_not_admitted(snapshot, self._engine, known, last, before, spare_seats=spare, now=now)
        except Exception as error:  # a plugin may raise anything; without its answer no pod is evicted
            log.exception("filters failed", extra={"reservation": f"{reservation.metadata.namespace}/{name}"})
            return dict.fromkeys(seats, describe_plugin_failure(error))
        return unknown | {(seat.task, seat.index): reason for seat, reason in answers.items() if reason}

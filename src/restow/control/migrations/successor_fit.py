"""Arrivals: would the nodes of seats take whoever comes in a pod's place now?

Goes in: news of everything that the filters of a scheduler go by. Comes out: what those of the configured profile say
against the successor in each seat, by what was heard until then; or where a seat would be.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from restow.client.subscriptions import Subscriptions
from restow.control.view import ClusterView
from restow.migration.facts import PredictedSeat
from restow.migration.successor_seats import SeatKey, seat_key
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Placement, Reservation
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat import seats_of
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.engine import Engine
from restow.scheduling.explain import describe_plugin_failure
from restow.scheduling.framework import Cycle
from restow.scheduling.schedule_result import Placed
from restow.scheduling.seat_checks.admission_check import Arrival, why_shut_out

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
    def __init__(self, reader: Subscriptions, engine: Engine) -> None:
        self._cluster = ClusterView(reader, _KINDS)
        self._engine = engine

    def configure(self, engine: Engine) -> None:
        """Ask other filters from now on."""
        self._engine = engine

    def predict_seat(self, reservation: Reservation, instead_of: str, *, now: float) -> PredictedSeat:
        """Where the scheduler would keep the seat of a reservation for whoever comes instead of a pod, as it is now."""
        meta, spec = reservation.metadata, reservation.spec
        [task] = spec.tasks or []
        name = SeatName(meta.namespace or "", meta.name, task.name, 0)
        try:
            with self._cluster.paused(), self._cluster.snapshot.counting_only_room_of(instead_of):
                cycle = Cycle(reserved_pod_of(name, task, spec.scheduler_name, spec.queue), self._cluster.snapshot, now)
                placed = self._engine.place(cycle, explain=False)
                if isinstance(placed, Placed):
                    return PredictedSeat(placed.node)
                return PredictedSeat(reason=self._engine.diagnose(cycle).message)
        except Exception as error:  # of a plugin
            log.exception("filters failed", extra={"reservation": f"{meta.namespace}/{meta.name}"})
            return PredictedSeat(reason=describe_plugin_failure(error))

    def rejected_seats(
        self,
        reservation: Reservation,
        placements: Sequence[Placement],
        last: Arrival,
        before: Sequence[Arrival],
        *,
        spare: int,
        now: float,
    ) -> dict[SeatKey, str]:
        """The seats that the last one would be kept from, each with why. They are asked in order, while those before it
        sit down, until there is one for each and so many to spare."""
        seats = {seat_key(one): next(seats_of(reservation, [one]), None) for one in placements}
        name = reservation.metadata.name
        found = {place: f"reservation {name} has no task {place[0]}" for place, seat in seats.items() if seat is None}
        there = [seat for seat in seats.values() if seat is not None]
        try:
            with self._cluster.paused():
                snapshot = self._cluster.snapshot
                answers = why_shut_out(snapshot, self._engine, there, last, before, spare=spare, now=now)
        except Exception as error:  # of a plugin: nobody leaves without its answer
            log.exception("filters failed", extra={"reservation": f"{reservation.metadata.namespace}/{name}"})
            return dict.fromkeys(seats, describe_plugin_failure(error))
        return found | {(seat.task, seat.index): why for seat, why in answers.items() if why}

"""The reservation observer: what is true of a reservation, from which its next status is computed.

Goes in: a reservation, the snapshot, the pods that consumed seats (`consumers`), and what a session decided about the
reservation and its status does not have yet. Comes out: a `ReservationObservation`: every seat with its consumer or its
fault, what is wrong with the spec, and why there is no room for the seats that are missing.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.object_key import Key, key_of
from restow.model.objects import Placement, Reservation
from restow.model.problems import Problem
from restow.model.reservations.observed_spec import has_undecided_change
from restow.model.reservations.pod_references import consumer_reference, workload_reference
from restow.model.reservations.seat_fault import SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import seats_per_task
from restow.model.reservations.status import ReservationObservation, SeatObservation
from restow.model.reservations.validation import spec_problems
from restow.scheduling.engine import Engine
from restow.scheduling.seat_checks.seat_health import check_with_filters, seat_faults
from restow.scheduling.seat_checks.spec_change import seats_refused_after_change
from restow.scheduling.seat_checks.spec_increase import seats_beyond_limits


class ReservationObserver:
    def __init__(self, cache: SchedulerCache, engine: Engine, namespace_share: int) -> None:
        self._cache = cache
        self._snapshot = cache.snapshot
        self._index = cache.snapshot.reservations
        self._engine = engine
        self._consumers = self._index.consumers
        self._namespace_share = namespace_share
        self._refusals: dict[Key, tuple[int | None, str]] = {}
        """Why there is no room for the missing seats, and the generation of the spec that this was decided about."""
        self._new_unguaranteed_seats: dict[Key, bool] = {}
        """Reservations that were given seats in room that pods are still leaving, until their status says so; True once
        such a seat was observed."""
        self._observed: dict[Key, Reservation] = {}
        """Reservations as they were observed, until their status is written."""
        self._written: dict[Key, Reservation] = {}
        """Reservations as they were observed for the status that was written last."""
        self._spec_problems: dict[Key, tuple[tuple[str, int | None], list[Problem]]] = {}
        """By UID and generation."""

    # --- what was decided and written ---------------------------------------------------------------------------------

    def seats_held(self, key: Key, *, unguaranteed: bool) -> None:
        """A session has found seats, perhaps `unguaranteed` ones in room that pods are still leaving."""
        self._refusals.pop(key, None)
        if unguaranteed:
            self._new_unguaranteed_seats[key] = False

    def seats_refused(self, reservation: Reservation, message: str) -> None:
        """A session has found no room for the missing seats."""
        self._refusals[key_of(reservation)] = (reservation.metadata.generation, message)

    def status_written(self, key: Key) -> None:
        """The status says what was observed last. What was decided after the observation is still to be written."""
        if self._new_unguaranteed_seats.get(key):
            del self._new_unguaranteed_seats[key]
        if key in self._observed:
            self._written[key] = self._observed.pop(key)

    def forget_decisions(self, key: Key) -> None:
        """The reservation has ended."""
        self._new_unguaranteed_seats.pop(key, None)
        self._refusals.pop(key, None)
        self._observed.pop(key, None)
        self._written.pop(key, None)

    def forget_spec(self, key: Key) -> None:
        """The reservation is gone."""
        self._spec_problems.pop(key, None)

    # --- observing ----------------------------------------------------------------------------------------------------

    def observe(self, reservation: Reservation, now: float) -> ReservationObservation:
        self._cache.note_pods_seen()
        key = key_of(reservation)
        has_unguaranteed = key in self._new_unguaranteed_seats
        if has_unguaranteed:
            self._new_unguaranteed_seats[key] = True
        self._observed[key] = reservation
        faults = self._seat_faults(reservation, now, has_unguaranteed=has_unguaranteed)
        seats = [
            self._observe_seat(name, placement, faults.get(name))
            for name, placement in self._placements(reservation).items()
        ]
        generation, refusal = self._refusals.get(key, (None, None))
        return ReservationObservation(
            seats=seats,
            problems=self.spec_problems(reservation),
            refusal=refusal if generation == reservation.metadata.generation else None,
            has_pods_on_the_way=self._consumers.assigned.has_pods_on_the_way(reservation.metadata.uid),
        )

    def _seat_faults(
        self, reservation: Reservation, now: float, *, has_unguaranteed: bool
    ) -> dict[SeatName, SeatFault]:
        """The fault of every seat that has one; where there are several, one that loses the seat comes first."""
        # 1. The node: it is gone, unfit, or pods are still leaving the room of the seat.
        faults = check_with_filters(
            self._snapshot, self._engine, reservation, now, waits_for_room=has_unguaranteed
        ) | seat_faults(self._snapshot, self._engine, self._index.seats(*key_of(reservation)), now)
        # 2. An edited spec that the node of the seat does not take.
        if has_undecided_change(reservation) and not self.spec_problems(reservation):
            before = self._before_edit(reservation)
            misfit = seats_refused_after_change(self._snapshot, self._engine, reservation, before, now)
            faults |= {name: fault for name, fault in misfit.items() if fault.reason.loses_seat or name not in faults}
        # 3. Limits, for the seats that are left: what a lost seat held counts for no queue any more.
        lost = {name for name, fault in faults.items() if fault.reason.loses_seat}
        return faults | seats_beyond_limits(
            self._snapshot, self._cache.pod_groups, reservation, self._namespace_share, lost
        )

    def _before_edit(self, reservation: Reservation) -> Reservation | None:
        """The reservation as it was when its status was last written here; None after a change of leader, or if the
        status is not of that generation."""
        before = self._written.get(key_of(reservation))
        if before is None or before.metadata.uid != reservation.metadata.uid:
            return None
        return before if before.metadata.generation == reservation.status.observed_generation else None

    def spec_problems(self, reservation: Reservation) -> list[Problem]:
        """What is wrong with the spec; computed once per generation, because the queue asks about every update."""
        key, version = key_of(reservation), (reservation.metadata.uid, reservation.metadata.generation)
        known = self._spec_problems.get(key)
        if known is None or known[0] != version or version[1] is None:
            known = self._spec_problems[key] = (version, spec_problems(reservation))
        return known[1]

    def _observe_seat(self, name: SeatName, placement: Placement, fault: SeatFault | None) -> SeatObservation:
        pod = self._consumers.consumer_of(name) if placement.pod_ref is None else None
        if pod is None:
            return SeatObservation(placement, fault)
        node = pod.spec.node_name or placement.node_name
        return SeatObservation(
            replace(placement, node_name=node, pod_ref=consumer_reference(pod)), owner=workload_reference(pod)
        )

    def _placements(self, reservation: Reservation) -> dict[SeatName, Placement]:
        """The placements that the next status may show: each seat once."""
        key, wants = key_of(reservation), seats_per_task(reservation)
        # 1. Those that the status shows.
        placements = {SeatName.of(key, placement): placement for placement in reservation.status.placements or ()}
        # 2. Those that are assumed beyond it.
        for seat in self._index.seats(*key):
            if seat.name not in placements:
                placements[seat.name] = Placement(task=seat.name.task, index=seat.name.index, node_name=seat.node)
        # 3. Those that pods consumed although the status does not show them, or not any more: the seat was taken back
        #    while its Binding was under way. A seat of that name may be asked for again, and must not be given twice.
        for name in self._consumers.consumed_seats(*key):
            is_asked_for = name.index < wants.get(name.task, 0) or self._consumers.was_bound_here(name)
            if name not in placements and is_asked_for and self._consumers.consumer_of(name) is not None:
                placements[name] = Placement(task=name.task, index=name.index, node_name="")
        return placements

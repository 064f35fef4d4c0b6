"""The reservation status controller: keeps the status of our reservations true.

Goes in: decisions of sessions about seats, pods that were bound into seats, changes of reservations, nodes and pods
(`reservation_work_queue`), and time. Comes out: patches of reservations/status, each guarded by the resourceVersion
that it was computed from, and Events.

Nothing is remembered that the API could not tell. Each reconciliation observes a reservation, its seats in the snapshot
and the pods that consumed them (`reservation_observer`), computes the status anew (`next_status`) and writes it if it
differs (`reservation_status_writer`):

    1  a pause after a refused write has ended: look for seats again
    2  observe; if a seat is lost, read its node and pods live, and observe again
    3  give back assumed seats that were lost before any status had them, and look for others
    4  compute the status
    5  if it grants more than before while other reservations still lose seats: wait for them
    6  write; from then on the status records which pods consumed seats

Seats that a session found are assumed until it is known what became of the write. Placements and phase are one write,
so no reservation is Available before its status names the nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import count

from msgspec.structs import replace

from restow.control.scheduler.binding_outcomes import ConsumedSeat
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.live_reads import LiveReads
from restow.control.scheduler.reservation_parts import ReservationParts
from restow.control.scheduler.reservation_status_writer import ReservationStatusWriter
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.cluster.known_pods import is_stale
from restow.model.object_key import Key, key_of
from restow.model.objects import Reservation, ReservationPhase, ReservationStatus
from restow.model.reservations.observed_spec import has_undecided_increase, is_ended
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat import SeatState
from restow.model.reservations.seat_fault import FaultReason
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import is_expired
from restow.model.reservations.status import ReservationObservation, SeatObservation, next_status
from restow.model.times import TimeError
from restow.model.wire import WireError
from restow.ports import ApiError, Forbidden, Invalid
from restow.scheduling.decisions import Assign, HoldSeats, RefuseReservation
from restow.scheduling.seat_checks.seat_health import needs_periodic_check, seats_lost_on_nodes_of

log = logging.getLogger(__name__)

_SEATS_PER_ROUND = 200
"""A reservation is checked in every round while it has fewer seats than this, else in every second one, and so on: to
ask the filters about so many seats takes some hundredths of a second."""


class ReservationStatusController:
    def __init__(
        self,
        dependencies: SchedulerDependencies,
        cache: SchedulerCache,
        parts: ReservationParts,
        live_reads: LiveReads,
    ) -> None:
        self._clock = dependencies.clock
        self._settings = dependencies.settings
        self._engine = dependencies.profile.engine
        self._cache = cache
        self._snapshot = cache.snapshot
        self._index = cache.snapshot.reservations
        self._consumers = cache.snapshot.reservations.consumers
        self._work = parts.work
        self._observer = parts.observer
        self._entries = parts.entries
        self._updates = parts.updates
        self._writer = ReservationStatusWriter(
            dependencies.client, parts.updates, parts.entries, parts.written, cache.signal
        )
        self._live_reads = live_reads

    # --- what sessions and bindings report ----------------------------------------------------------------------------

    def seats_held(self, decision: HoldSeats) -> None:
        """A session has found seats, which are assumed now: write them."""
        key = key_of(decision.reservation)
        self._observer.seats_held(key, unguaranteed=decision.waiting)
        self._updates.report_assumed_seats(decision.reservation)
        self._work.add(key)

    def seats_refused(self, decision: RefuseReservation) -> None:
        """A session has found no room for the missing seats: write why."""
        self._observer.seats_refused(decision.reservation, decision.message)
        self._work.add(key_of(decision.reservation))

    def pod_bound(self, assign: Assign, consumed_seat: ConsumedSeat | None) -> None:
        """A pod was bound, perhaps into a seat. The seat may have been taken back, or be on another node, by now."""
        if consumed_seat is None:
            self.seat_not_consumed(assign)
            return
        name = consumed_seat.seat
        key = (name.namespace, name.reservation)
        reservation = self._index.get(*key)
        if reservation is None or reservation.metadata.uid != consumed_seat.reservation_uid:
            return
        if self._consumers.is_recorded(name):
            return
        self._consumers.bound(assign.pod, assign.node, name, consumed_seat.reservation_uid)
        if self._cache.latest(assign.pod) is None:
            # Race between bind and watch: the pod was bound, finished and deleted, and the watch showed its end before
            # the response to the Binding arrived. No event will follow, so its end is repeated here.
            self._work.pod_changed(assign.pod, gone=True)
        elif self._index.seat(name) is None:
            self._work.add(key)

    def seat_not_consumed(self, assign: Assign) -> None:
        """A pod has not consumed the seat that it was assigned, and will not. If the seat was taken back meanwhile and
        is asked for again, it can be placed now."""
        if assign.seat is not None:
            self._consumers.assigned.end(assign.pod.metadata.uid)
            self._entries.retry((assign.seat.namespace, assign.seat.reservation))
            if self._work.is_watched(assign.node):
                self._work.node_changed(assign.node)

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin. To be called once the watches are synced: an object that was not seen yet looks as if it were gone."""
        for number in range(self._settings.status_writers):
            tasks.create_task(self._reconcile_forever(), name=f"scheduler reservations {number}")
        tasks.create_task(self._work.add_consumed(), name="scheduler consumption writes")
        tasks.create_task(self._check_periodically(), name="scheduler reservation check")

    async def _reconcile_forever(self) -> None:
        while True:
            async with self._work.next() as key:
                try:
                    await self._reconcile(key)
                except (ApiError, WireError) as error:
                    log.info("reservation not reconciled", extra={"reservation": "/".join(key), "err": str(error)})
                    self._work.retry(key)
                except Exception:  # a bug that one reservation meets must not stop the others
                    log.exception("reservation not reconciled", extra={"reservation": "/".join(key)})
                    self._work.retry(key)
                else:
                    self._work.forget_failures(key)

    async def _check_periodically(self) -> None:
        """Looks again at reservations for what no event reports: time passes; filters depend on the whole cluster; and
        assumed seats, if their write was never confirmed."""
        for number in count():
            await asyncio.sleep(self._settings.reservation_check_period)
            now = self._clock.now()
            for key in sorted(self._work.live):
                reservation = self._index.get(*key)
                if reservation is None:
                    continue
                is_its_round = needs_periodic_check(reservation) and number % _rounds_between_checks(reservation) == 0
                if is_its_round or _is_expired(reservation, now):
                    self._work.add(key)
            for reservation, age in list(self._index.placements.assumed(now)):
                if is_stale(age, self._settings.assumed_pod_max_age):
                    self._work.add(key_of(reservation))

    # --- one reconciliation -------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> None:
        self._work.stop_awaiting_others(key)
        reservation = self._unfinished(key)
        if reservation is None:
            return
        # 1. After a refused write: look for seats again.
        if self._work.refused_writes.end_pause(key):
            self._entries.retry(key)
        # 2. Observe. A cache that is behind must not end anything: before a seat is lost, its node is read live.
        observation = self._observer.observe(reservation, self._clock.now())
        nodes_of_lost_seats = sorted({seat.placement.node_name for seat in observation.seats if seat.is_lost})
        if nodes_of_lost_seats:
            await self._live_reads.refresh_nodes(nodes_of_lost_seats)
            reservation = self._unfinished(key)  # it may have changed during the reads
            if reservation is None:
                return
            observation = self._observer.observe(reservation, self._clock.now())
        # 3. Assumed seats that are lost already.
        observation = self._without_lost_assumed_seats(reservation, observation)
        # 4. The status.
        status = next_status(reservation, observation, self._clock.now())
        # 5. Wait for others.
        if status is not None and not _fails_in_any_case(status) and self._must_wait_for_others(reservation):
            self._work.await_others(key)
            self._work.watch_nodes(key, {seat.placement.node_name for seat in observation.seats})
            return
        # 6. Write. A migration waits for what happens on the nodes of its seats even when they are ready.
        is_migration = migrating_pod(reservation) is not None
        watched = (seat for seat in observation.seats if is_migration or not seat.is_ready)
        self._work.watch_nodes(key, {seat.placement.node_name for seat in watched})
        if status is None or await self._write(reservation, status):
            self._observer.status_written(key)
            for seat in observation.seats:
                if seat.is_consumed:
                    self._consumers.recorded(SeatName.of(key, seat.placement))

    def _unfinished(self, key: Key) -> Reservation | None:
        """The reservation, if it is ours and there is anything left to write about it."""
        reservation = self._index.get(*key)
        if reservation is None or _is_finished(reservation) or not self._entries.is_ours(reservation):
            return None
        return reservation

    async def _write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        """Write the status; whether the reservation has it now."""
        try:
            is_written = await self._writer.write(reservation, status)
        except (Invalid, Forbidden) as error:
            # The server will not accept this status. Holding the seats meanwhile would keep room for nothing.
            log.error("reservation not written", extra={"reservation": reservation.metadata.name, "err": str(error)})
            self._give_back_assumed_seats(reservation)
            self._cache.signal.wake_scheduling_loop()
            self._work.refused_writes.write_refused(key_of(reservation))
            return False
        self._work.refused_writes.write_accepted(key_of(reservation))
        return is_written

    def _must_wait_for_others(self, reservation: Reservation) -> bool:
        """Whether an edited reservation asks for more than it was given while it is not known yet whether there is
        room: other reservations are about to lose seats on the same nodes, or pods are on their way to seats that have
        grown. Granted now, the room would be promised twice."""
        if not has_undecided_increase(reservation):
            return False
        key = key_of(reservation)
        lost = seats_lost_on_nodes_of(self._snapshot, self._engine, reservation, self._clock.now())
        others = {(name.namespace, name.reservation) for name in lost} & self._work.live - {key}
        for other in sorted(others):
            if not self._work.refused_writes.is_paused(other):
                self._work.add(other)
        is_pod_on_its_way = any(
            (name.namespace, name.reservation) == key and self._index.states.of(name) is SeatState.ASSIGNED
            for name in lost
        )
        return bool(others) or is_pod_on_its_way

    def _give_back_assumed_seats(self, reservation: Reservation) -> None:
        self._updates.forget_assumed_seats(reservation)
        self._work.retry_those_awaiting_others()

    def _without_lost_assumed_seats(
        self, reservation: Reservation, observation: ReservationObservation
    ) -> ReservationObservation:
        """Assumed seats that were lost before any status had them are no loss to report: give them back and let the
        next session look for others."""
        recorded, assumed = split_recorded_and_assumed(reservation, observation.seats)
        if not any(seat.is_lost for seat in assumed):
            return observation
        self._give_back_assumed_seats(reservation)
        self._entries.retry(key_of(reservation))
        return replace(observation, seats=recorded)


def split_recorded_and_assumed(
    reservation: Reservation, seats: Iterable[SeatObservation]
) -> tuple[list[SeatObservation], list[SeatObservation]]:
    """The seats that were consumed or that the status has, and the seats that were only assumed."""
    key, recorded, assumed = key_of(reservation), list[SeatObservation](), list[SeatObservation]()
    in_status = {SeatName.of(key, placement) for placement in reservation.status.placements or ()}
    for seat in seats:
        is_recorded = seat.is_consumed or SeatName.of(key, seat.placement) in in_status
        (recorded if is_recorded else assumed).append(seat)
    return recorded, assumed


def _rounds_between_checks(reservation: Reservation) -> int:
    return 1 + len(reservation.status.placements or ()) // _SEATS_PER_ROUND


def _is_finished(reservation: Reservation) -> bool:
    """Whether it has ended, and the consumption of all its seats is recorded."""
    placements = reservation.status.placements or ()
    return is_ended(reservation) and all(placement.pod_ref is not None for placement in placements)


def _fails_in_any_case(status: ReservationStatus) -> bool:
    """Whether the reservation fails whatever becomes of others. If others lose seats, only a limit may leave room."""
    return status.state.phase == ReservationPhase.FAILED and status.state.reason != FaultReason.LIMIT_EXCEEDED


def _is_expired(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:  # an unreadable time: the next reconciliation says so in the status
        return True

"""Reservation updates: what a reservation, as it is now, changes in the snapshot, in the scheduling queue and for its
status.

Goes in: reservations from watch events, from live reads and from responses to our own writes; seats that a session has
found, and seats that are not to be. Comes out: its seats in the snapshot, its entry in the scheduling queue, a look at
its status, and an event for the pods that wait for room wherever a seat begins or ceases to hold some.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.scheduler.reservation_work_queue import ReservationWorkQueue
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.object_key import key_of
from restow.model.objects import Pod, Reservation
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.observed_spec import is_being_deleted
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class ReservationUpdates:
    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        entries: ReservationQueueEntries,
        work: ReservationWorkQueue,
    ) -> None:
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._queue = queue
        self._entries = entries
        self._work = work

    def upsert_reservation(self, reservation: Reservation) -> None:
        """Take over a reservation as it is. One that is being deleted holds nothing any more, so it counts as gone."""
        index = self._snapshot.reservations
        known = index.get(*key_of(reservation))
        # Watch events race with responses to our own writes; a version that is known, or older, is dropped.
        if known is not None and known.metadata.resource_version == reservation.metadata.resource_version != "":
            return
        if index.placements.is_late(reservation):
            return
        if is_being_deleted(reservation):
            self.remove_reservation(reservation)
            return
        is_edited = known is not None and known.spec != reservation.spec
        with self._reporting_changed_seats(reservation, is_edited=is_edited):
            if known is not None and known.metadata.uid != reservation.metadata.uid:
                # Deleted and created again under the same name, and the watch did not show the deletion: what was
                # assumed for the old one is not for the new one.
                self._snapshot.forget_placements(known)
                self._entries.remove(known)
            self._snapshot.apply_reservation(reservation)
        if self._entries.is_ours(reservation):
            self._work.reservation_changed(reservation, gone=False)
        self._entries.update(key_of(reservation))

    def remove_reservation(self, reservation: Reservation) -> None:
        """A reservation is gone; by now there may be another one of that name, which stays."""
        key, index = key_of(reservation), self._snapshot.reservations
        known, last = index.get(*key), reservation
        if (
            known is not None
            and known.metadata.uid == reservation.metadata.uid
            and index.placements.is_late(reservation)
        ):
            last = known  # a response to one of our writes has shown a newer version than the watch had before the end
        with self._reporting_changed_seats(reservation):
            self._snapshot.remove_reservation(last)
        self._entries.remove(reservation)
        if index.get(*key) is None and self._entries.is_ours(reservation):
            self._work.reservation_changed(reservation, gone=True)

    # --- seats that are assumed ---------------------------------------------------------------------------------------

    def report_assumed_seats(self, reservation: Reservation) -> None:
        """A session has found seats and assumed them: pods with an affinity to pods like these may fit now."""
        with_room, _ = self._survey_seats(reservation)
        for pod in with_room.values():
            self._tell_queue(ActionType.ADDED, new=pod)

    def forget_assumed_seats(self, reservation: Reservation) -> None:
        """The inverse of assuming seats: keep only those that the status of the reservation shows."""
        with self._reporting_changed_seats(reservation):
            self._snapshot.forget_placements(reservation)

    # --- cluster events for the queue ---------------------------------------------------------------------------------

    @contextmanager
    def _reporting_changed_seats(self, reservation: Reservation, *, is_edited: bool = False) -> Iterator[None]:
        """Compares the seats before and after a change. To the pods that wait, a seat is the pod that it is reserved
        for: it is added, updated, or deleted."""
        before, open_before = self._survey_seats(reservation)
        yield
        after, open_after = self._survey_seats(reservation)
        for seat in sorted(open_before - open_after - before.keys()):
            self._report_recorded_consumption(seat)
        for seat in sorted(before.keys() | after.keys() if is_edited else before.keys() ^ after.keys()):
            old, new = before.get(seat), after.get(seat)
            if new is None:
                self._tell_queue(ActionType.DELETED, old=old)
            elif old is None:
                self._tell_queue(ActionType.ADDED, new=new)
            else:
                self._tell_queue(ActionType.UPDATED, old=old, new=new)

    def _survey_seats(self, reservation: Reservation) -> tuple[dict[SeatName, Pod], set[SeatName]]:
        """The seats that hold room, if only beside a pod that is smaller than its seat, each with its reserved pod; and
        the seats without a recorded consumer."""
        index = self._snapshot.reservations
        seats = index.seats(*key_of(reservation))
        with_room = {
            seat.name: seat.reserved_pod
            for seat in seats
            if seat.name in index.reserved_pods or index.reserved_pods.remainder(seat.name)
        }
        return with_room, {seat.name for seat in seats if seat.is_open}

    def _report_recorded_consumption(self, name: SeatName) -> None:
        """A seat is charged to the queue of its reservation until its consumption is recorded, from then on to the
        queue of the pod in it: if that is another one, the first has room again."""
        seat = self._snapshot.reservations.seat(name)
        consumer = self._snapshot.pods.known.get(seat.recorded_consumer or "") if seat is not None else None
        if seat is None or consumer is None:
            return  # not consumed, or the consumer is gone, which the queue was told of
        if self._pod_groups.queue_of(consumer.pod) != (seat.queue or DEFAULT_QUEUE):
            self._tell_queue(ActionType.DELETED, old=seat.reserved_pod)

    def _tell_queue(self, action: ActionType, old: Pod | None = None, new: Pod | None = None) -> None:
        self._queue.handle_event(ClusterEvent(EventResource.POD, action, old, new), monotonic_time())

"""Queue entries of reservations: the scheduling queue holds pods, so a reservation waits there as a pod.

Goes in: reservations as the snapshot has them. Comes out: one entry in the queue for every reservation of ours that has
seats left to place. It is popped, refused, woken by cluster events and tried again as pods are.
"""

from __future__ import annotations

from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.reservation_observer import ReservationObserver
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.object_key import Key, key_of
from restow.model.objects import ObjectMeta, Pod, PodSpec, Reservation
from restow.model.queues import DEFAULT_QUEUE, QUEUE_ANNOTATION
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import is_for_scheduler, seats_per_task
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class ReservationQueueEntries:
    def __init__(self, cache: SchedulerCache, queue: SchedulingQueue, observer: ReservationObserver) -> None:
        self._cache = cache
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._queue = queue
        self._observer = observer
        self._entries: dict[str, Key] = {}
        """The reservations that are queued, by the UID that the reservation and its entry share."""

    def is_ours(self, reservation: Reservation) -> bool:
        return is_for_scheduler(reservation, self._cache.scheduler_names)

    def update(self, key: Key) -> None:
        """Queue a reservation, or update its entry, if it has seats left to place; else remove its entry."""
        reservation = self._snapshot.reservations.get(*key)
        if reservation is None:
            return
        if self._has_seats_to_place(reservation):
            self._entries[reservation.metadata.uid] = key
            entry = _entry_pod(reservation, self._pod_groups.priority_classes.reservation_priority(reservation))
            self._queue.add(entry, monotonic_time())
        else:
            self.remove(reservation)

    def retry(self, key: Key) -> None:
        """The same, because seats were lost or taken back: no event will wake the scheduling loop for it."""
        self.update(key)
        self._cache.signal.wake_scheduling_loop()

    def remove(self, reservation: Reservation) -> None:
        self._queue.delete(reservation.metadata.uid)
        self._entries.pop(reservation.metadata.uid, None)

    # --- what the queue has popped ------------------------------------------------------------------------------------

    def is_entry(self, pod: Pod) -> bool:
        """Whether a pod from the queue is the entry of a reservation."""
        return pod.metadata.uid in self._entries

    def reservation_of(self, entry: Pod) -> Reservation | None:
        """The reservation of an entry; None, and the entry is removed, if it has no seats left to place."""
        reservation = self._snapshot.reservations.get(*self._entries[entry.metadata.uid])
        if reservation is None or not self._has_seats_to_place(reservation):
            self._queue.delete(entry.metadata.uid)
            del self._entries[entry.metadata.uid]
            return None
        return reservation

    def _has_seats_to_place(self, reservation: Reservation) -> bool:
        if is_ended(reservation) or not self.is_ours(reservation) or self._observer.spec_problems(reservation):
            return False
        is_given, key = self._snapshot.reservations.consumers.is_given, key_of(reservation)
        seats = (
            SeatName(*key, task, index) for task, count in seats_per_task(reservation).items() for index in range(count)
        )
        return not all(is_given(seat) for seat in seats)


def _entry_pod(reservation: Reservation, priority: int) -> Pod:
    meta = reservation.metadata
    annotations = {
        QUEUE_ANNOTATION: reservation.spec.queue or DEFAULT_QUEUE,
        # The queue tries a refused pod again when its annotations change: so an edited reservation is tried again.
        "generation": str(meta.generation),
    }
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            annotations=annotations,
        ),
        spec=PodSpec(priority=priority),
    )

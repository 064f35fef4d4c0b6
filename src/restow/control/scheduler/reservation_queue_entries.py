"""Tickets: reservations in the snapshot, and in the queue among the pods.

Goes in: reservations as the API shows them. Comes out: seats in the snapshot, and for every reservation of ours that
has something left to place a ticket in the scheduling queue: it is tried, refused, woken and tried again as a pod is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model.cluster import SeatName, Snapshot
from restow.model.cluster.names import Key, key_of
from restow.model.cluster.seat import is_being_deleted, is_ended, wanted
from restow.model.objects import ObjectMeta, Pod, PodSpec, Reservation
from restow.model.tenancy import DEFAULT_QUEUE, QUEUE_ANNOTATION
from restow.scheduling.queue import SchedulingQueue
from restow.scheduling.reservations.validity import is_for
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource


class ReservationQueueEntries:
    def __init__(self, snapshot: Snapshot, roster: PodGroupCache, queue: SchedulingQueue, names: frozenset[str]) -> None:
        self.on_change: Callable[[Reservation, bool], None] = lambda reservation, gone: None
        """Told of every reservation of ours that is shown as it was not known, or gone."""
        self.is_valid: Callable[[Reservation], bool] = lambda reservation: True
        """Whether a reservation asks for something that can be placed."""
        self._snapshot = snapshot
        self._roster = roster
        self._queue = queue
        self._names = names
        self._issued: dict[str, Key] = {}

    def show(self, reservation: Reservation) -> None:
        """A reservation as it is, from an event or from an answer to a write. Whichever of the two is late says
        nothing. One that is being deleted is gone."""
        book = self._snapshot.reservations
        known = book.get(*key_of(reservation))
        if known is not None and known.metadata.resource_version == reservation.metadata.resource_version != "":
            return
        if book.is_late(reservation):
            return
        if is_being_deleted(reservation):
            self.hide(reservation)
            return
        edited = known is not None and known.spec != reservation.spec
        with self._watching(reservation, edited=edited):
            if known is not None and known.metadata.uid != reservation.metadata.uid:  # it only has the same name
                self._snapshot.forget_placements(known)
                self._withdraw(known)
            self._snapshot.apply_reservation(reservation)
        if self.is_ours(reservation):
            self.on_change(reservation, False)
        self.issue(key_of(reservation))

    def hide(self, reservation: Reservation) -> None:
        """A reservation is gone, though an answer to a write may have shown more of it than whoever says so has seen.
        There may be another one of that name by now."""
        key, book = key_of(reservation), self._snapshot.reservations
        known, last = book.get(*key), reservation
        if known is not None and known.metadata.uid == reservation.metadata.uid and book.is_late(reservation):
            last = known
        with self._watching(reservation):
            self._snapshot.remove_reservation(last)
        self._withdraw(reservation)
        if book.get(*key) is None and self.is_ours(reservation):
            self.on_change(reservation, True)

    def held(self, reservation: Reservation) -> None:
        """Seats were decided: to those who want to be near, or evenly spread, pods have come."""
        for seat in self._survey(reservation)[0].values():
            self._queue.tell(ClusterEvent(EventResource.POD, ActionType.ADDED, new=seat), monotonic_time())

    def give_back(self, reservation: Reservation) -> None:
        """Seats that were decided are not to be; `issue` lets them be looked for anew."""
        with self._watching(reservation):
            self._snapshot.forget_placements(reservation)

    def is_ours(self, reservation: Reservation) -> bool:
        return is_for(reservation, self._names)

    def redeem(self, ticket: Pod) -> Reservation | None:
        """What a ticket from the queue stands for. None if there is nothing left to place: it is no good any more."""
        reservation = self._snapshot.reservations.get(*self._issued[ticket.metadata.uid])
        if reservation is None or not self._has_more_to_place(reservation):
            self._queue.delete(ticket.metadata.uid)
            del self._issued[ticket.metadata.uid]
            return None
        return reservation

    def is_ticket(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._issued

    # ------------------------------------------------------------------------------------------------------------------

    def issue(self, key: Key) -> None:
        """A ticket if there is something left to place, none otherwise."""
        reservation = self._snapshot.reservations.get(*key)
        if reservation is None:
            return
        if self._has_more_to_place(reservation):
            self._issued[reservation.metadata.uid] = key
            self._queue.add(_ticket(reservation, self._roster.reservation_priority(reservation)), monotonic_time())
        else:
            self._withdraw(reservation)

    def _withdraw(self, reservation: Reservation) -> None:
        self._queue.delete(reservation.metadata.uid)
        self._issued.pop(reservation.metadata.uid, None)

    def _has_more_to_place(self, reservation: Reservation) -> bool:
        if is_ended(reservation) or not self.is_ours(reservation) or not self.is_valid(reservation):
            return False
        is_given, key = self._snapshot.reservations.is_given, key_of(reservation)
        wants = ((task, index) for task, count in wanted(reservation).items() for index in range(count))
        return not all(is_given(SeatName(*key, task, index)) for task, index in wants)

    @contextmanager
    def _watching(self, reservation: Reservation, *, edited: bool = False) -> Iterator[None]:
        """Whoever waits is told of the seats that hold nothing any more, something else, or something now: to them, a
        pod has left, changed, or come. To a queue one has left, too, when it is written down that a pod of another took
        its seat."""
        before, waited_for = self._survey(reservation)
        yield
        after, unmarked = self._survey(reservation)
        for seat in sorted(waited_for - unmarked - before.keys()):
            self._tell_queue(seat)
        for seat in sorted(before.keys() | after.keys() if edited else before.keys() ^ after.keys()):
            old, new = before.get(seat), after.get(seat)
            if old is None or new is None:
                self._queue.tell(ClusterEvent(EventResource.POD, ActionType.DELETED if new is None else ActionType.ADDED, old, new), monotonic_time())
            else:
                self._queue.tell(ClusterEvent(EventResource.POD, ActionType.UPDATED, old, new), monotonic_time())

    def _survey(self, reservation: Reservation) -> tuple[dict[SeatName, Pod], set[SeatName]]:
        """The seats of a reservation that hold room, if only beside a pod, each with the pod it stands for; and those
        of which it is not written down that somebody took them."""
        book = self._snapshot.reservations
        seats = book.seats(*key_of(reservation))
        held = {seat.name: seat.stand_in for seat in seats if book.holds(seat.name) or book.keeps(seat.name)}
        return held, {seat.name for seat in seats if seat.open}

    def _tell_queue(self, name: SeatName) -> None:
        seat = self._snapshot.reservations.seat(name)
        taker = self._snapshot.pods.known.get(seat.consumer or "") if seat is not None else None
        if seat is None or taker is None:
            return  # nobody took it, or whoever did is gone, which was told
        if self._roster.queue_of(taker.pod) != (seat.queue or DEFAULT_QUEUE):
            self._queue.tell(ClusterEvent(EventResource.POD, ActionType.DELETED, old=seat.stand_in), monotonic_time())


def _ticket(reservation: Reservation, priority: int) -> Pod:
    meta = reservation.metadata
    annotations = {
        QUEUE_ANNOTATION: reservation.spec.queue or DEFAULT_QUEUE,
        "generation": str(meta.generation),  # one that was changed is worth another try
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

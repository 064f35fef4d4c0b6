"""The work queue of the reservation status controller: which reservations are looked at again, and when.

Goes in: what happened to reservations, nodes and pods, and what the controller itself waits for. Comes out: keys of
reservations, each at most once at a time, retried with back-off.

    the reservation changed, and not by our own write       at once
    something changed on a node where it has seats, or
    where it watches for seats to become ready              at once
    a pod consumed a seat                                   soon, together with other pods; at once if others
                                                            wait for it
    the seats of another reservation changed                those at once that wait for others
    the server refused a write                              after a pause that doubles each time
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from restow.client.workqueue import WorkQueue
from restow.control.scheduler.consumption_writes import ConsumptionWrites
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.reservation_observer import ReservationObserver
from restow.control.scheduler.written_statuses import WrittenStatuses
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Reservation
from restow.model.pods import is_finished
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.seat_checks.seats_on_node import open_seats_on

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_PAUSE_MARGIN = 0.25
"""Seconds after its pause at which a reservation is looked at, so that the pause is surely over."""
_NEVER = math.inf
_CONSUMPTION_DELAY, _LONGEST_CONSUMPTION_DELAY = 0.25, 1.0
"""Seconds to wait for more pods of a reservation before their consumption is recorded, since pods of one owner come
together; the longer one while more pods are known to be on their way."""


class ReservationWorkQueue:
    def __init__(
        self,
        snapshot: Snapshot,
        observer: ReservationObserver,
        written: WrittenStatuses,
        consumption_writes: ConsumptionWrites,
    ) -> None:
        self.live: set[Key] = set()
        """Reservations of ours that have not ended."""
        self._snapshot = snapshot
        self._index = snapshot.reservations
        self._consumers = snapshot.reservations.consumers
        self._observer = observer
        self._written = written
        self._consumption_writes = consumption_writes
        self._queue: WorkQueue[Key] = WorkQueue(base=0.1, cap=10.0)
        self._awaiting_others: set[Key] = set()
        """Reservations that ask for more than they were given, until it is known whether there is room for it."""
        self.refused_writes = RefusedWrites(self._queue)
        self._watchers: dict[str, set[Key]] = {}
        """By node: the reservations that wait for something to happen there."""
        self._watched: dict[Key, set[str]] = {}
        """The same, by reservation."""

    # --- taking work --------------------------------------------------------------------------------------------------

    def add(self, key: Key) -> None:
        self._queue.add(key)

    @asynccontextmanager
    async def next(self) -> AsyncIterator[Key]:
        """The next reservation to look at; no other worker gets it until the context ends."""
        async with self._queue.next() as key:
            self._consumption_writes.write_begins(key)
            try:
                yield key
            finally:
                self._consumption_writes.write_ended(key)

    async def add_consumed(self) -> None:
        """Add reservations with consumed seats to record, each when its turn has come, until cancelled."""
        await self._consumption_writes.run(self.add)

    def retry(self, key: Key) -> None:
        """Look again after a back-off that doubles with every failure in a row."""
        self._queue.retry(key)

    def forget_failures(self, key: Key) -> None:
        self._queue.forget(key)

    # --- what happened ------------------------------------------------------------------------------------------------

    def reservation_changed(self, reservation: Reservation, *, gone: bool) -> None:
        """A reservation of ours is in a version that was not known, or gone."""
        key = key_of(reservation)
        if gone or is_ended(reservation):
            self.live.discard(key)
            self._observer.forget_decisions(key)
            self.refused_writes.forget(key)
            self.watch_nodes(key, ())
        else:
            self.live.add(key)
        if gone:
            self._observer.forget_spec(key)
            self._consumers.reservation_gone(*key)
        for name in self._consumers.consumed_seats(*key):
            self._close_seat(name)
        self.retry_those_awaiting_others()
        is_own_write = self._written.observe(reservation, gone=gone)
        if not is_own_write:
            self._queue.add(key)

    def node_changed(self, node: str) -> None:
        with_seats = {(seat.namespace, seat.reservation) for seat in open_seats_on(self._snapshot, node)}
        for key in sorted(with_seats | self._watchers.get(node, set())):
            self._queue.add(key)

    def pod_changed(self, pod: Pod, *, gone: bool) -> None:
        """A pod is as it is, or gone. Pods may consume seats, and leave the room that seats wait for."""
        seat = self._consumers.pod_gone(pod) if gone else self._consumers.pod_shown(pod)
        if gone or is_finished(pod):
            self._close_seat(seat or self._consumers.seat_of(pod))
        if gone or is_finished(pod) or pod.metadata.deletion_timestamp is not None:
            self._record_consumption(seat or self._consumers.seat_of(pod), at_once=True)
        elif seat is not None:
            self._record_consumption(seat)
        node = pod.spec.node_name
        if node and self.live and (self.is_watched(node) or self._is_overdrawn(node)):
            self.node_changed(node)

    # --- consumed seats -----------------------------------------------------------------------------------------------

    def _record_consumption(self, name: SeatName | None, *, at_once: bool = False) -> None:
        """Let the status record which pod consumed a seat. Until then only the pod says so.

        At once where something depends on it: the pod is about to go, and with it the only record; a migration waits
        for it; the pod left a rest of its seat, which others get when its consumption is recorded. Else together with
        the other pods of the reservation, when bindings leave time for it.
        """
        if name is None or self._consumers.is_recorded(name):
            return
        key, seat = (name.namespace, name.reservation), self._index.seat(name)
        reservation = self._index.get(*key)
        if at_once or seat is None or (reservation is not None and migrating_pod(reservation) is not None):
            self._queue.add(key)
            return
        delay = _CONSUMPTION_DELAY if self._index.free.names(*key) else 0.0
        delay = (
            _LONGEST_CONSUMPTION_DELAY if self._consumers.assigned.has_pods_on_the_way(seat.reservation_uid) else delay
        )
        if self._index.reserved_pods.remainder(name):
            self._queue.add_after(key, delay)
        else:
            self._consumption_writes.request(key, delay)

    def _close_seat(self, name: SeatName | None) -> None:
        """Let no other pod take a seat if its consumer is gone and was not recorded."""
        if name is not None:
            self._index.states.close_if_consumed(name)

    def _is_overdrawn(self, node: str) -> bool:
        """Whether pods and seats of a node together exceed it, so that a seat there is about to be lost."""
        row = self._snapshot.rows.find_row(node)
        return row is not None and self._snapshot.room.is_overdrawn(row)

    # --- what a reservation waits for ---------------------------------------------------------------------------------

    def await_others(self, key: Key) -> None:
        """Look at a reservation again when the seats of any other have changed."""
        self._awaiting_others.add(key)

    def stop_awaiting_others(self, key: Key) -> None:
        self._awaiting_others.discard(key)

    def retry_those_awaiting_others(self) -> None:
        """The seats of some reservation have changed."""
        for key in sorted(self._awaiting_others):
            self._queue.add(key)

    def is_watched(self, node: str) -> bool:
        """Whether some reservation waits for something to happen on a node."""
        return node in self._watchers

    def watch_nodes(self, key: Key, nodes: Iterable[str]) -> None:
        """Look at a reservation again when something changes on these nodes, and no longer for others."""
        wanted = set(nodes)
        for node in self._watched.pop(key, set()) - wanted:
            self._watchers[node].discard(key)
            if not self._watchers[node]:
                del self._watchers[node]
        if wanted:
            self._watched[key] = wanted
        for node in wanted:
            self._watchers.setdefault(node, set()).add(key)


class RefusedWrites:
    """Reservations with a status that the server refused. Their seats are given back, and looked for again after a
    pause that doubles with every refusal in a row."""

    def __init__(self, queue: WorkQueue[Key]) -> None:
        self._queue = queue
        self._refusals: dict[Key, int] = {}
        """How often in a row."""
        self._paused_until: dict[Key, float] = {}

    def write_refused(self, key: Key) -> None:
        """Begin a pause."""
        self._refusals[key] = times = self._refusals.get(key, 0) + 1
        delay = float(min(_SHORTEST_PAUSE * 2 ** min(times, 10), _LONGEST_PAUSE))
        self._paused_until[key] = monotonic_time() + delay
        self._queue.add_after(key, delay + _PAUSE_MARGIN)

    def write_accepted(self, key: Key) -> None:
        """The next pause is a short one again."""
        self._refusals.pop(key, None)

    def is_paused(self, key: Key) -> bool:
        return key in self._paused_until

    def end_pause(self, key: Key) -> bool:
        """End the pause of a reservation if its time is over; whether it has ended just now."""
        if self._paused_until.get(key, _NEVER) > monotonic_time():
            return False
        del self._paused_until[key]
        return True

    def forget(self, key: Key) -> None:
        self._refusals.pop(key, None)
        self._paused_until.pop(key, None)

"""The API memory auditor sits inside the API server: after every write, by any client, would a scheduler that began now
go on correctly?

Promise 4: the API is the only memory. If all processes died at this moment, and a new leader listed everything,

- the room that is taken would be what the objects explain, no more and no less: the pods on a node, and the free seats
of
  live reservations, or what a seat holds beyond the pod in it. An ended reservation holds nothing, nor does one that is
  gone
- the consumer of every seat would be known: no other pod gets the seat, and its consumption would be recorded for this
pod - what is recorded would stay recorded, and what has ended would stay ended; what has expired would end, and no seat
would
  be kept on a node that is gone
- the first steps of the new leader (`next_leader`) over-commit nothing (1) and assign no seat twice (5)

A leader that has seen everything knows just that, at the moment before it sees more:

- it counts with what a new leader would count with, and with what it has only decided, which takes more room
- whatever it has only decided, a task is at work on: a binding, or the write of a status
- what a new leader would write at once, it has written within LONGEST seconds: no expired reservation and no node that
is
  gone holds seats, and no consumption stays unrecorded

And of every write itself: a reservation that has ended never lives again, a seat with a recorded consumer is never free
or another pod's again, and observedGeneration never goes back.

Where the auditor looks away, and why that hides nothing:

- A leader that has not seen everything is not compared: it cannot know. It is compared again when it has.
- A seat with a pod that left before its consumption was recorded is closed as long as the leader remembers; objects do
  not. So a leader may have fewer free seats than a new leader would, among those with a consumption to record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec

from restow.adapters.memory import MemoryApi
from restow.adapters.memory.store import Change, Collection, Stored
from restow.control.scheduler import Scheduler, SchedulerSettings
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model import kinds
from restow.model.object_key import Key, key_of
from restow.model.objects import Node, Placement, Pod, Reservation
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.spec import is_expired, seats_per_task
from restow.model.resources import PODS, Vector, add_vectors, parse_amounts, pod_requests, subtract_vectors
from restow.ports import Clock
from restow.scheduling.registry import Profile
from tests.control.reservations.expected_room import (
    RoomLeft,
    awaits_its_migrating_pod,
    held_by_free_seats,
    remainders_of_consumed_seats,
    room_left,
    seat_named_by,
    seat_sizes,
    shortages,
)
from tests.control.reservations.next_leader import FirstSteps, Lists, NextLeader, SchedulerKnowledge, knowledge_of
from tests.control.reservations.reservation_cluster import open_seats, takes_room

LONGEST = 10.0
"""Seconds that a scheduler may take for what is to be written, if writes fail every now and then."""
_NODES, _PODS, _RESERVATIONS = (kind.qualified_name for kind in (kinds.NODE, kinds.POD, kinds.RESERVATION))
_WATCHED: tuple[kinds.Kind[Any], ...] = (
    kinds.NODE,
    kinds.POD,
    kinds.RESERVATION,
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.QUEUE,
    kinds.POD_GROUP,
    *kinds.OWNERS,
    *kinds.STORAGE,
)
_KINDS: dict[str, Any] = {kind.qualified_name: kind.type for kind in _WATCHED}


class ApiMemoryAuditor:
    """`leader` gives the scheduler that leads, if any; `faults` has what was wrong."""

    def __init__(
        self, api: MemoryApi, clock: Clock, *, profile: Profile, settings: SchedulerSettings | None = None
    ) -> None:
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self._api = api
        self._clock = clock
        self._profile = profile
        self._settings = settings or SchedulerSettings()
        self.leader: Callable[[], Scheduler | None] = lambda: None
        self._asked: Scheduler | None = None
        """The leader at the last event."""
        self._read: dict[tuple[str, str], tuple[int, Any]] = {}
        """Every object as last read, with its version, by kind and UID."""
        self._listed: Lists = self._lists()
        self._known: SchedulerKnowledge | None = None
        """What a new leader would have known after the last event."""
        self._since = 0.0
        """When the last event was."""
        self.due: set[str] = set()
        """The UIDs of reservations with another status that a new leader would have written at once."""
        self._due_since: dict[str, float] = {}
        """Since when a leader that knows everything has not written it."""
        api._state.store.observers.append(self._observe)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name not in _KINDS:
            return
        self.counts["events"] += 1
        what = f"{'end' if change.removed else 'write'} of {collection.name.split('.')[0]} {change.new.key}"
        self._audit_leader(f"before the {what}")
        if collection.name == _RESERVATIONS and change.old is not None and not change.removed:
            old, new = (msgspec.json.decode(one.data, type=Reservation) for one in (change.old, change.new))
            self._check_change(old, new, f"after the {what}")
        self.audit(f"after the {what}")

    def audit(self, when: str) -> None:
        """Compare everything as it is now with the first steps of a new leader."""
        self._listed = self._lists()
        self._audit_next_leader(when)

    def _lists(self) -> Lists:
        """All objects; an object that was decoded before is not decoded again."""
        found = self._api._state.store.collections
        return {name: [self._decoded(name, one) for one in found[name]] for name in _KINDS if name in found}

    def _decoded(self, kind: str, stored: Stored) -> Any:
        version, item = self._read.get((kind, stored.uid), (0, None))
        if version != stored.version:
            item = msgspec.json.decode(stored.data, type=_KINDS[kind])
            self._read[kind, stored.uid] = stored.version, item
        return item

    def _blame(self, when: str, what: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f} {when}: {what}")

    # --- a write ------------------------------------------------------------------------------------------------------

    def _check_change(self, old: Reservation, new: Reservation, when: str) -> None:
        if is_ended(old) and new.status.state != old.status.state:
            self._blame(when, f"{old.metadata.name} had ended: {old.status.state}, and now {new.status.state}")
        if is_ended(old) and _free_seats(new) - _free_seats(old):
            self._blame(when, f"{old.metadata.name} had ended, and has another seat")
        if (new.status.observed_generation or 0) < (old.status.observed_generation or 0):
            self._blame(when, f"{old.metadata.name} has forgotten what it has seen of its spec")
        if not _recorded_consumers(old).items() <= _recorded_consumers(new).items():
            self._blame(
                when, f"{old.metadata.name} had recorded {_recorded_consumers(old)}, and has {_recorded_consumers(new)}"
            )

    # --- a new leader
    # --------------------------------------------------------------------------------------------------

    def _audit_next_leader(self, when: str) -> None:
        turn = self.counts["events"] % 2 == 0
        next_leader = NextLeader(
            self._api, self._clock, self._listed, profile=self._profile, settings=self._settings, pods_first=turn
        )
        self._known = next_leader.knowledge
        self._check_explained(self._known, when)
        steps = next_leader.first_steps()
        self._check_consumers(self._known, steps, when)
        self._check_ends(steps, when)
        self._check_lasting(steps, when)
        self._check_room(steps, when)
        self._check_seats(steps, when)
        self._since = monotonic_time()
        self.due = {
            one.metadata.uid for key, one in steps.settled.items() if _status_differs(self._reservation(key), one)
        }

    def _check_explained(self, known: SchedulerKnowledge, when: str) -> None:
        """All room that is taken is that of a pod, or of a seat beyond the pod in it."""
        pods = [one for one in self._pods if takes_room(one)]
        free: dict[str, Vector] = {
            one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in self._nodes
        }
        taken: list[tuple[str, Vector]] = [(one.spec.node_name or "", pod_requests(one)) for one in pods]
        for one in self._reservations:
            taken += [
                *held_by_free_seats(one, pods, seat_sizes(one)),
                *remainders_of_consumed_seats(one, pods, seat_sizes(one)),
            ]
        for node, request in taken:
            if node in free:
                free[node] = subtract_vectors(free[node], add_vectors(request, {PODS: 1}))
        expected = {node: {name: amount for name, amount in left.items() if amount} for node, left in free.items()}
        if known.free != expected:
            self._blame(when, f"a new leader would count with {known.free}, and there is {expected}")

    def _check_consumers(self, known: SchedulerKnowledge, steps: FirstSteps, when: str) -> None:
        """A pod in a seat without a recorded consumer keeps it, and would be recorded."""
        for pod in self._pods:
            seat, reservation_uid = seat_named_by(pod)
            one = next((one for one in self._reservations if one.metadata.uid == reservation_uid), None)
            if one is None or not pod.spec.node_name or seat in _recorded_consumers(one):
                continue
            if seat in known.free_seats:
                self._blame(when, f"{pod.metadata.name} took {seat}, and a new leader would give it away again")
            task, index = seat.split("/")[2:]
            is_asked_for = int(index) < seats_per_task(one).get(task, 0) and not is_ended(one)
            if not is_asked_for and seat not in _free_seats(one):
                continue  # a change to the reservation has released it
            if _recorded_consumers(steps.reservations[key_of(one)]).get(seat) != pod.metadata.uid:
                self._blame(when, f"{pod.metadata.name} took {seat}, and a new leader would not record it")

    def _check_ends(self, steps: FirstSteps, when: str) -> None:
        """No expired reservation would hold seats, and no seat would be kept on a node that is gone."""
        there = {one.metadata.name for one in self._nodes}
        for one in steps.reservations.values():
            if not is_ended(one) and is_expired(one, self._clock.now()):
                self._blame(when, f"{one.metadata.name} has expired, and a new leader would let it live")
            for _, seat, node in open_seats(one):
                if node not in there:
                    self._blame(when, f"{node} is gone, and a new leader would keep {seat} there")

    def _check_lasting(self, steps: FirstSteps, when: str) -> None:
        for key, new in steps.reservations.items():
            self._check_change(self._reservation(key), new, f"{when}, by a new leader")

    def _check_room(self, steps: FirstSteps, when: str) -> None:
        """No node would be more over-committed than it is."""
        if not steps.bound and list(steps.reservations.values()) == self._reservations:
            return
        before = shortages(self._left(self._pods, self._reservations))
        after = shortages(self._left(list(steps.pods.values()), list(steps.reservations.values())))
        for (horizon, node, name), missing in after.items():
            gave_up = any(_gave_up(self._reservation(key), one, node) for key, one in steps.reservations.items())
            if missing > before.get((horizon, node, name), 0) and not (horizon == "awaited" and gave_up):
                self._blame(when, f"{horizon} {node} {name} would lack {missing} after a new leader's first steps")

    def _check_seats(self, steps: FirstSteps, when: str) -> None:
        """No consumed seat would be assigned, and no seat twice."""
        taken = {seat_named_by(one) for one in self._pods} | {
            (seat, one.metadata.uid) for one in self._reservations for seat in _recorded_consumers(one)
        }
        for pod in steps.bound:
            self.counts["bindings"] += 1
            seat = seat_named_by(pod)
            if any(
                awaits_its_migrating_pod(one, self._pods) for one in self._reservations if one.metadata.uid == seat[1]
            ):
                self._blame(when, f"a new leader would bind {pod.metadata.name} into {seat[0]}, which is still closed")
            if seat[0] and seat in taken:
                self._blame(when, f"a new leader would bind {pod.metadata.name} into {seat[0]}, which was taken")
            taken.add(seat)

    def _left(self, pods: list[Pod], reservations: list[Reservation]) -> RoomLeft:
        sizes = {one.metadata.uid: seat_sizes(one) for one in reservations}
        return room_left(self._nodes, [one for one in pods if takes_room(one)], reservations, sizes)

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _audit_leader(self, when: str) -> None:
        """Before the next event, the leader has seen all that has happened, if it sees it at all."""
        leader, known, before = self.leader(), self._known, self._asked
        self._asked = leader
        if leader is not before:
            self._due_since.clear()
            self._since = monotonic_time()
        if leader is None or known is None or not self._has_heard_everything(leader):
            self._due_since.clear()
            return
        self.counts["compared"] += 1
        self._check_in_time(when)
        self._compare(leader, knowledge_of(leader), known, when)

    def _has_heard_everything(self, leader: Scheduler) -> bool:
        for informer in leader._cache.subscriptions._subscribed:
            there = {
                key_of(one): one.metadata.resource_version for one in self._listed.get(informer.kind.qualified_name, ())
            }
            if there != {key_of(one): one.metadata.resource_version for one in informer}:
                return False
        return True

    def _compare(self, leader: Scheduler, own: SchedulerKnowledge, known: SchedulerKnowledge, when: str) -> None:
        now, snapshot = self._clock.now(), leader._cache.snapshot
        pods, holds = snapshot.assumed(now), list(snapshot.reservations.placements.assumed(now))
        for one in pods:
            if one.pod.metadata.uid not in leader._binding_tasks:
                self._blame(when, f"the leader counts {one.pod.metadata.name} on {one.node}, and no task binds it")
        for reservation, _ in holds:
            if not _is_worked_on(leader, key_of(reservation)):
                self._blame(when, f"the leader holds seats of {reservation.metadata.name}, and no task writes that")
        if own.live != known.live:
            self._blame(when, f"the leader looks after {sorted(own.live)}, a new leader after {sorted(known.live)}")
        closed = self._closed_seats(leader, when)
        if not own.free_seats <= known.free_seats or not (pods or holds or known.free_seats - own.free_seats <= closed):
            self._blame(
                when, f"to the leader {sorted(own.free_seats)} are vacant, to a new leader {sorted(known.free_seats)}"
            )
        if pods or holds:
            more = {node: left for node, left in own.free.items() if not _is_less(left, known.free.get(node, {}))}
            if more:
                self._blame(when, f"the leader sees more room than a new leader: {more}, {known.free}")
            return
        self.counts["equal"] += 1
        if (own.free, own.held) != (known.free, known.held):
            self._blame(when, f"the leader counts with {own.free}, {own.held}; a new leader {known.free}, {known.held}")
        if not known.queued <= own.queued:
            self._blame(
                when, f"the leader looks for seats for {sorted(own.queued)}, a new leader {sorted(known.queued)}"
            )

    def _closed_seats(self, leader: Scheduler, when: str) -> set[str]:
        """The seats that the leader knows to be consumed; the consumption of each is being written."""
        index = leader._cache.snapshot.reservations
        for name in index.consumers.closed:
            seat = index.seat(name)
            if seat is not None and seat.is_open and not _is_worked_on(leader, (name.namespace, name.reservation)):
                self._blame(when, f"the leader knows that {name} was consumed, and no task writes that")
        return {str(name) for name in index.consumers.closed}

    def _check_in_time(self, when: str) -> None:
        """What a new leader would write at once is written before long."""
        self._due_since = {uid: self._due_since.get(uid, self._since) for uid in self.due}
        for uid, since in self._due_since.items():
            if monotonic_time() - since > LONGEST:
                one = next(one for one in self._reservations if one.metadata.uid == uid)
                self._blame(when, f"{one.metadata.name} was to be written {monotonic_time() - since:.1f} s before")

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _nodes(self) -> list[Node]:
        return self._listed[_NODES]

    @property
    def _pods(self) -> list[Pod]:
        return self._listed[_PODS]

    @property
    def _reservations(self) -> list[Reservation]:
        return self._listed[_RESERVATIONS]

    def _reservation(self, key: Key) -> Reservation:
        return next(one for one in self._reservations if key_of(one) == key)


def _recorded_consumers(one: Reservation) -> dict[str, str | None]:
    """The UIDs of the recorded consumers, by seat."""
    placed = one.status.placements or ()
    return {_seat(one, each): each.pod_ref.uid for each in placed if each.pod_ref is not None}


def _free_seats(one: Reservation) -> set[str]:
    """The seats in the status without a recorded consumer, whether the reservation has ended or not."""
    return {_seat(one, each) for each in one.status.placements or () if each.pod_ref is None}


def _seat(one: Reservation, placement: Placement) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}/{placement.task}/{placement.index}"


def _status_differs(old: Reservation, new: Reservation) -> bool:
    """Whether the phase or the seats differ."""
    before, after = old.status, new.status
    return (before.state.phase, before.placements or []) != (after.state.phase, after.placements or [])


def _gave_up(old: Reservation, new: Reservation, node: str) -> bool:
    """Whether a reservation has lost a seat on a node, and with it its claim on the pods that it awaited there."""
    before, after = ({seat for _, seat, where in open_seats(one) if where == node} for one in (old, new))
    return bool(before - after)


def _is_less(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one.get(name, 0) <= other.get(name, 0) for name in {*one, *other})


def _is_worked_on(leader: Scheduler, key: Key) -> bool:
    """Whether the status of a reservation is being written, or is about to be."""
    work = leader._reservation_parts.work
    writes = work._consumption_writes
    queues = ((one._dirty, one._processing, one._timers) for one in (work._queue, writes._queue))
    delayed = (writes._under_way, writes._again, work._awaiting_others, work.refused_writes._paused_until)
    return any(key in one for one in (*chain(*queues), *delayed))

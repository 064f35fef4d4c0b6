"""An auditor inside the API server: after every write, whoever it is by, would a scheduler that began now go on?

Promise 4, the API is the only memory. If everybody died at this moment, and all that there is were listed:

- what takes room there would be what the objects explain, no more and no less: the pods on a node, and the seats of
  live reservations in which nobody sits, or what those are larger than the pods in them. An ended reservation holds
  nothing, nor does one that is gone
- whoever took a seat would be known: the seat is for nobody else, and would be marked for this pod
- what is marked would stay marked, and what has ended would stay so; what has expired would end, and no seat would be
  kept on a node that is gone
- the first things that it would do (`successor`) over-commit nothing (1) and give no seat twice (5)

A scheduler that leads and has heard of everything knows just that, when it is about to hear more:

- it counts with what a successor would count with, apart from what it has only decided, which takes more room
- whatever it has only decided, somebody is at work on: a binding, or the write of a status
- what a successor would write at once, it has written within LONGEST seconds: nothing is held whose time is over, or
  whose node is gone, and nobody who took a seat is left unmarked

And of every write itself: a reservation that has ended never lives again, a seat that was marked is never open or
somebody else's again, and what a status has seen of the spec it has not forgotten.

Where it looks away, and why that hides nothing:

- A scheduler that has not heard of everything is not asked: it cannot know. It is asked again when it has.
- A seat whose pod has left before it was marked is for nobody as long as somebody remembers; objects do not. So a
  scheduler that leads may have fewer vacant seats than a successor would, of those that it means to mark.
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
    Left,
    held_by,
    is_shut,
    kept_by,
    left,
    named_by,
    shortages,
    sizes_of,
)
from tests.control.reservations.next_leader import Known, Lists, Steps, Successor, known_to
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


class Memory:
    """`leader` says which scheduler leads, if one does."""

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
        """Who led at the last event."""
        self._read: dict[tuple[str, str], tuple[int, Any]] = {}
        """Every object as last read, with its version, by kind and UID."""
        self._listed: Lists = self._lists()
        self._known: Known | None = None
        """What a successor would have known after the last event."""
        self._since = 0.0
        """When that was."""
        self.due: set[str] = set()
        """The UIDs of reservations of which a successor would have written another status at once."""
        self._due_since: dict[str, float] = {}
        """For how long a scheduler that leads and knows everything has not written it."""
        api._state.store.observers.append(self._observe)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name not in _KINDS:
            return
        self.counts["events"] += 1
        what = f"{'end' if change.removed else 'write'} of {collection.name.split('.')[0]} {change.new.key}"
        self._ask_leader(f"before the {what}")
        if collection.name == _RESERVATIONS and change.old is not None and not change.removed:
            old, new = (msgspec.json.decode(one.data, type=Reservation) for one in (change.old, change.new))
            self._changed(old, new, f"after the {what}")
        self.look(f"after the {what}")

    def look(self, when: str) -> None:
        """Ask a successor what it makes of everything as it is now."""
        self._listed = self._lists()
        self._ask_successor(when)

    def _lists(self) -> Lists:
        """All that there is; what was read before is not read again."""
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

    def _changed(self, old: Reservation, new: Reservation, when: str) -> None:
        if is_ended(old) and new.status.state != old.status.state:
            self._blame(when, f"{old.metadata.name} had ended: {old.status.state}, and now {new.status.state}")
        if is_ended(old) and _unmarked(new) - _unmarked(old):
            self._blame(when, f"{old.metadata.name} had ended, and has another seat")
        if (new.status.observed_generation or 0) < (old.status.observed_generation or 0):
            self._blame(when, f"{old.metadata.name} has forgotten what it has seen of its spec")
        if not _marks(old).items() <= _marks(new).items():
            self._blame(when, f"{old.metadata.name} was marked {_marks(old)}, and is {_marks(new)}")

    # --- a successor --------------------------------------------------------------------------------------------------

    def _ask_successor(self, when: str) -> None:
        turn = self.counts["events"] % 2 == 0
        successor = Successor(
            self._api, self._clock, self._listed, profile=self._profile, settings=self._settings, pods_first=turn
        )
        self._known = successor.known
        self._explain(self._known, when)
        steps = successor.begin()
        self._takers(self._known, steps, when)
        self._ends(steps, when)
        self._lasting(steps, when)
        self._room(steps, when)
        self._seats(steps, when)
        self._since = monotonic_time()
        self.due = {one.metadata.uid for key, one in steps.settled.items() if _says_else(self._reservation(key), one)}

    def _explain(self, known: Known, when: str) -> None:
        """Everything that takes room is a pod, or a seat beyond the pod in it."""
        pods = [one for one in self._pods if takes_room(one)]
        free: dict[str, Vector] = {
            one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in self._nodes
        }
        taken: list[tuple[str, Vector]] = [(one.spec.node_name or "", pod_requests(one)) for one in pods]
        for one in self._reservations:
            taken += [*held_by(one, pods, sizes_of(one)), *kept_by(one, pods, sizes_of(one))]
        for node, request in taken:
            if node in free:
                free[node] = subtract_vectors(free[node], add_vectors(request, {PODS: 1}))
        expected = {node: {name: amount for name, amount in left.items() if amount} for node, left in free.items()}
        if known.free != expected:
            self._blame(when, f"a successor would count with {known.free}, and there is {expected}")

    def _takers(self, known: Known, steps: Steps, when: str) -> None:
        """Whoever is in a seat that is not marked has it, and would be marked."""
        for pod in self._pods:
            seat, life = named_by(pod)
            one = next((one for one in self._reservations if one.metadata.uid == life), None)
            if one is None or not pod.spec.node_name or seat in _marks(one):
                continue
            if seat in known.vacant:
                self._blame(when, f"{pod.metadata.name} took {seat}, and a successor would give it away again")
            task, index = seat.split("/")[2:]
            is_asked_for = int(index) < seats_per_task(one).get(task, 0) and not is_ended(one)
            if not is_asked_for and seat not in _unmarked(one):
                continue  # a change to the reservation has released it
            if _marks(steps.reservations[key_of(one)]).get(seat) != pod.metadata.uid:
                self._blame(when, f"{pod.metadata.name} took {seat}, and a successor would not mark it")

    def _ends(self, steps: Steps, when: str) -> None:
        """Nothing would be held whose time is over, or whose node is gone."""
        there = {one.metadata.name for one in self._nodes}
        for one in steps.reservations.values():
            if not is_ended(one) and is_expired(one, self._clock.now()):
                self._blame(when, f"{one.metadata.name} has expired, and a successor would let it live")
            for _, seat, node in open_seats(one):
                if node not in there:
                    self._blame(when, f"{node} is gone, and a successor would keep {seat} there")

    def _lasting(self, steps: Steps, when: str) -> None:
        for key, new in steps.reservations.items():
            self._changed(self._reservation(key), new, f"{when}, by a successor")

    def _room(self, steps: Steps, when: str) -> None:
        """Nothing is more over-committed than it is."""
        if not steps.bound and list(steps.reservations.values()) == self._reservations:
            return
        before = shortages(self._left(self._pods, self._reservations))
        after = shortages(self._left(list(steps.pods.values()), list(steps.reservations.values())))
        for (book, node, name), missing in after.items():
            gave_up = any(_gave_up(self._reservation(key), one, node) for key, one in steps.reservations.items())
            if missing > before.get((book, node, name), 0) and not (book == "hope" and gave_up):
                self._blame(when, f"{book} {node} {name} would lack {missing} after a successor's first steps")

    def _seats(self, steps: Steps, when: str) -> None:
        """No seat is given that somebody took, or given twice."""
        taken = {named_by(one) for one in self._pods} | {
            (seat, one.metadata.uid) for one in self._reservations for seat in _marks(one)
        }
        for pod in steps.bound:
            self.counts["bindings"] += 1
            seat = named_by(pod)
            if any(is_shut(one, self._pods) for one in self._reservations if one.metadata.uid == seat[1]):
                self._blame(when, f"a successor would bind {pod.metadata.name} into {seat[0]}, which is for nobody yet")
            if seat[0] and seat in taken:
                self._blame(when, f"a successor would bind {pod.metadata.name} into {seat[0]}, which was taken")
            taken.add(seat)

    def _left(self, pods: list[Pod], reservations: list[Reservation]) -> Left:
        sizes = {one.metadata.uid: sizes_of(one) for one in reservations}
        return left(self._nodes, [one for one in pods if takes_room(one)], reservations, sizes)

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _ask_leader(self, when: str) -> None:
        """Before the next event: all that has happened was heard of, if it is heard of at all."""
        leader, known, before = self.leader(), self._known, self._asked
        self._asked = leader
        if leader is not before:
            self._due_since.clear()
            self._since = monotonic_time()
        if leader is None or known is None or not self._has_heard_everything(leader):
            self._due_since.clear()
            return
        self.counts["compared"] += 1
        self._in_time(when)
        self._compare(leader, known_to(leader), known, when)

    def _has_heard_everything(self, leader: Scheduler) -> bool:
        for informer in leader._cache.subscriptions._subscribed:
            there = {
                key_of(one): one.metadata.resource_version for one in self._listed.get(informer.kind.qualified_name, ())
            }
            if there != {key_of(one): one.metadata.resource_version for one in informer}:
                return False
        return True

    def _compare(self, leader: Scheduler, own: Known, known: Known, when: str) -> None:
        now, snapshot = self._clock.now(), leader._cache.snapshot
        pods, holds = snapshot.assumed(now), list(snapshot.reservations.placements.assumed(now))
        for one in pods:
            if one.pod.metadata.uid not in leader._binding_tasks:
                self._blame(when, f"the leader counts {one.pod.metadata.name} on {one.node}, and no task binds it")
        for reservation, _ in holds:
            if not _is_worked_on(leader, key_of(reservation)):
                self._blame(when, f"the leader holds seats of {reservation.metadata.name}, and no task writes that")
        if own.live != known.live:
            self._blame(when, f"the leader looks after {sorted(own.live)}, a successor after {sorted(known.live)}")
        closed = self._closed_seats(leader, when)
        if not own.vacant <= known.vacant or not (pods or holds or known.vacant - own.vacant <= closed):
            self._blame(when, f"to the leader {sorted(own.vacant)} are vacant, to a successor {sorted(known.vacant)}")
        if pods or holds:
            more = {node: left for node, left in own.free.items() if not _is_less(left, known.free.get(node, {}))}
            if more:
                self._blame(when, f"the leader sees more room than a successor: {more}, {known.free}")
            return
        self.counts["equal"] += 1
        if (own.free, own.held) != (known.free, known.held):
            self._blame(when, f"the leader counts with {own.free}, {own.held}; a successor {known.free}, {known.held}")
        if not known.short <= own.short:
            self._blame(when, f"the leader looks for seats for {sorted(own.short)}, a successor {sorted(known.short)}")

    def _closed_seats(self, leader: Scheduler, when: str) -> set[str]:
        """The seats that the leader knows to be consumed; the consumption of each is being written."""
        index = leader._cache.snapshot.reservations
        for name in index.consumers.closed:
            seat = index.seat(name)
            if seat is not None and seat.is_open and not _is_worked_on(leader, (name.namespace, name.reservation)):
                self._blame(when, f"the leader knows that {name} was consumed, and no task writes that")
        return {str(name) for name in index.consumers.closed}

    def _in_time(self, when: str) -> None:
        """What a successor would write at once is written before long."""
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


def _marks(one: Reservation) -> dict[str, str | None]:
    """The pods that took seats, according to their reservation, by UID."""
    placed = one.status.placements or ()
    return {_seat(one, each): each.pod_ref.uid for each in placed if each.pod_ref is not None}


def _unmarked(one: Reservation) -> set[str]:
    """The seats that its status shows and that nobody took, whether it has ended or not."""
    return {_seat(one, each) for each in one.status.placements or () if each.pod_ref is None}


def _seat(one: Reservation, placement: Placement) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}/{placement.task}/{placement.index}"


def _says_else(old: Reservation, new: Reservation) -> bool:
    """Whether it is in another phase, or has other seats."""
    before, after = old.status, new.status
    return (before.state.phase, before.placements or []) != (after.state.phase, after.placements or [])


def _gave_up(old: Reservation, new: Reservation, node: str) -> bool:
    """Whether a reservation has lost a seat on a node, and with it the hope that others leave."""
    before, after = ({seat for _, seat, where in open_seats(one) if where == node} for one in (old, new))
    return bool(before - after)


def _is_less(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one.get(name, 0) <= other.get(name, 0) for name in {*one, *other})


def _is_worked_on(leader: Scheduler, key: Key) -> bool:
    """Whether the status of a reservation is being written, or is about to be."""
    work = leader._reservation_parts.work
    writes = work._consumption_writes
    queues = ((one._dirty, one._processing, one._timers) for one in (work._queue, writes._queue))
    put_off = (writes._under_way, writes._again, work._awaiting_others, work.refused_writes._paused_until)
    return any(key in one for one in (*chain(*queues), *put_off))

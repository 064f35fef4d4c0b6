"""The next leader: a scheduler that has listed everything and has not begun. What does it know, and what are its first
steps?

It is the scheduler itself, with lists instead of watches. Its writes are recorded, and answered as the API server would
answer, but not carried out: so it can be asked at any moment, and no other component sees it.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from restow.adapters.memory import MemoryApi
from restow.client.cache import Change
from restow.client.shared_informers import SharedInformers
from restow.control.scheduler import Scheduler, SchedulerSettings
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Reservation, ReservationStatus
from restow.ports import Clock, Request, Response
from restow.scheduling.decisions import Assign, HoldSeats, RefuseReservation
from restow.scheduling.registry import Profile
from restow.sim.write_log import is_write, name_of

T = TypeVar("T")
Lists = Mapping[str, list[Any]]
"""All objects, by the qualified name of their kind."""


class SchedulerKnowledge(msgspec.Struct, frozen=True):
    """What a scheduler counts with."""

    free: dict[str, dict[str, int]]
    """What is left of every node: the amounts that are not 0."""
    held: dict[str, str]
    """The node of every seat that takes room."""
    free_seats: frozenset[str]
    """The seats that a pod may consume."""
    live: frozenset[Key]
    """The reservations of this scheduler that have not ended."""
    queued: frozenset[Key]
    """The reservations that wait in the scheduling queue for seats."""


def knowledge_of(scheduler: Scheduler) -> SchedulerKnowledge:
    """What a scheduler would decide on, if it decided now."""
    cache = scheduler._cache
    snapshot = cache.snapshot
    book, room = snapshot.reservations, snapshot.room
    mark = snapshot.mark()
    try:
        cache.note_pods_seen()
        rows = ((name, snapshot.rows.find_row(name) or 0) for name in snapshot.rows.names())
        present = [(name, row) for name, row in rows if snapshot.nodes.present[row]]
        seats = {name: book.seat(name) for name in book.reserved_pods.names()}
        return SchedulerKnowledge(
            free={
                node: {
                    name: line[row] for name, line in zip(room.resources.names, room.free_at, strict=True) if line[row]
                }
                for node, row in present
            },
            held={str(name): seat.node for name, seat in seats.items() if seat is not None},
            free_seats=frozenset(str(seat.name) for key in book.names() for seat in book.free_seats(*key)),
            live=frozenset(scheduler._reservation_parts.work.live),
            queued=frozenset(scheduler._reservation_parts.entries._entries.values()),
        )
    finally:
        snapshot.undo_to(mark)


class FirstSteps(msgspec.Struct):
    """The cluster after the first steps of a new leader."""

    settled: dict[Key, Reservation]
    """The reservations with another status that it would write at once, whatever it decides then."""
    reservations: dict[Key, Reservation]
    pods: dict[str, Pod]
    """By UID."""
    bound: list[Pod]


class NextLeader:
    def __init__(
        self,
        api: MemoryApi,
        clock: Clock,
        lists: Lists,
        *,
        profile: Profile,
        settings: SchedulerSettings,
        pods_first: bool,
    ) -> None:
        self._api = _RecordingApi(api)
        self._lists = lists
        self._scheduler = made = Scheduler(
            self._api,
            clock,
            random.Random(0),
            profile=profile,
            settings=settings,
            informers=cast(SharedInformers, _ListedInformers(lists, str(api.version))),
        )
        self._controller, self._work = made._reservations, made._reservation_parts.work
        self._work._queue.close()  # `first_steps` says what is reconciled
        self._work._consumption_writes._queue.close()
        subscribed = list(made._cache.subscriptions._subscribed.items())
        for listed, subscription in reversed(subscribed) if pods_first else subscribed:
            for one in listed:
                for handle in subscription.handlers:
                    handle(Change("ADDED", one))

    @property
    def knowledge(self) -> SchedulerKnowledge:
        return knowledge_of(self._scheduler)

    def first_steps(self) -> FirstSteps:
        """Reconcile every reservation, run one session, and reconcile the reservations that it decided about."""
        written = self._api.written
        names = self._scheduler._cache.snapshot.reservations.names()
        while names:
            for key in names:
                _run_without_waiting(self._controller._reconcile(key))
            waiting = sorted(self._work._awaiting_others)  # reservations that wait for what becomes of others
            names = waiting if waiting != names else []
        settled = dict(written)
        bound = self._decide()
        pods = {one.metadata.uid: one for one in (*self._lists[kinds.POD.qualified_name], *bound)}
        before = {key_of(one): one for one in self._lists[kinds.RESERVATION.qualified_name]}
        return FirstSteps(settled, before | written, pods, bound)

    def _decide(self) -> list[Pod]:
        scheduler, assigned, told = self._scheduler, list[Assign](), dict[Key, None]()
        now = monotonic_time()
        scheduler._queue.flush_unschedulable(now)
        for decision in scheduler._sessions.decide(scheduler._batches.take(now)):
            if isinstance(decision, Assign):
                assigned.append(decision)
            elif isinstance(decision, HoldSeats | RefuseReservation):
                if isinstance(decision, HoldSeats):
                    self._controller.seats_held(decision)
                else:
                    self._controller.seats_refused(decision)
                told[key_of(decision.reservation)] = None
        bound = [self._bound(one) for one in assigned if scheduler._cycle._check_before_bind(one) is None]
        for key in told:
            _run_without_waiting(self._controller._reconcile(key))
        return bound

    def _bound(self, assign: Assign) -> Pod:
        """A pod as its Binding would make it."""
        pod, cycle = assign.pod, self._scheduler._cycle
        annotations = {**(pod.metadata.annotations or {}), **(cycle._annotations(cycle._seat_to_consume(pod)) or {})}
        metadata = replace(pod.metadata, annotations=annotations)
        return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=assign.node))


class _ListedInformer:
    """An informer with a list and without a watch."""

    def __init__(self, kind: Kind[Any], items: list[Any], version: str) -> None:
        self.kind = kind
        self.version = version
        self._items = {key_of(one): one for one in items}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items.values())

    def get(self, name: str, namespace: str | None = None) -> Any:
        return self._items.get((namespace or "", name))


class _ListedInformers:
    """Informers that have listed everything."""

    def __init__(self, lists: Lists, version: str) -> None:
        self._lists = lists
        self._version = version
        self._made: dict[str, _ListedInformer] = {}

    def get(self, kind: Kind[Any], *, namespace: str | None = None, fields: str | None = None) -> _ListedInformer:
        name = kind.qualified_name
        if name not in self._made:
            self._made[name] = _ListedInformer(kind, self._lists.get(name, []), self._version)
        return self._made[name]


class _RecordingApi:
    """The API server as it is now. Statuses of reservations that are written to it are recorded and not stored; other
    writes are a fault."""

    def __init__(self, api: MemoryApi) -> None:
        self.written: dict[Key, Reservation] = {}
        self.watch = api.watch
        self._answer = api._answer
        self._version = api.version

    async def call(self, request: Request) -> Response:
        if not is_write(request):
            return self._answer(request)
        assert (request.resource.plural, request.subresource) == ("reservations", "status"), name_of(request)
        key = (request.namespace or "", request.name or "")
        [*_, change] = msgspec.json.decode(request.body)
        now = self.written.get(key) or await self._read(request)
        self._version += 1
        self.written[key] = replace(
            now,
            metadata=replace(now.metadata, resource_version=str(self._version)),
            status=msgspec.convert(change["value"], ReservationStatus),
        )
        return Response(body=msgspec.json.encode(self.written[key]))

    async def _read(self, request: Request) -> Reservation:
        asked = Request(verb="get", resource=request.resource, namespace=request.namespace, name=request.name)
        return msgspec.json.decode(self._answer(asked).body, type=Reservation)


def _run_without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    work.close()
    raise AssertionError("the coroutine waits")

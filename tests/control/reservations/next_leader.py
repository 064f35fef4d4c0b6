"""A successor: a scheduler that has listed everything and has not begun. What does it know, and what would it do first?

It is the scheduler itself, fed with lists instead of watches. What it writes is noted, and answered as the API server
would, but not done: so it can be asked at any moment, and nobody else hears of it.
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
"""Everything that there is, by the qualified name of its kind."""


class Known(msgspec.Struct, frozen=True):
    """What a scheduler counts with."""

    free: dict[str, dict[str, int]]
    """What is left of every node: the amounts that are not 0."""
    held: dict[str, str]
    """The node of every seat that takes room."""
    vacant: frozenset[str]
    """The seats that a pod may take."""
    live: frozenset[Key]
    """The reservations that it looks after and that have not ended."""
    short: frozenset[Key]
    """Those that it looks for seats for."""


def known_to(scheduler: Scheduler) -> Known:
    """What a scheduler would decide by, if it decided now."""
    cache = scheduler._cache
    snapshot = cache.snapshot
    book, room = snapshot.reservations, snapshot.room
    mark = snapshot.mark()
    try:
        cache.catch_up()
        rows = ((name, snapshot.rows.find_row(name) or 0) for name in snapshot.rows.names())
        present = [(name, row) for name, row in rows if snapshot.nodes.present[row]]
        seats = {name: book.seat(name) for name in book.reserved_pods.names()}
        return Known(
            free={
                node: {
                    name: line[row] for name, line in zip(room.resources.names, room.free_at, strict=True) if line[row]
                }
                for node, row in present
            },
            held={str(name): seat.node for name, seat in seats.items() if seat is not None},
            vacant=frozenset(str(seat.name) for key in book.names() for seat in book.free_seats(*key)),
            live=frozenset(scheduler._reservation_parts.work.live),
            short=frozenset(scheduler._reservation_parts.entries._entries.values()),
        )
    finally:
        snapshot.undo_to(mark)


class Steps(msgspec.Struct):
    """The cluster after what a successor would do first."""

    settled: dict[Key, Reservation]
    """The reservations of which it would write another status at once, whatever it decides then."""
    reservations: dict[Key, Reservation]
    pods: dict[str, Pod]
    """By UID."""
    bound: list[Pod]


class Successor:
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
        self._api = _Unwritten(api)
        self._lists = lists
        self._scheduler = made = Scheduler(
            self._api,
            clock,
            random.Random(0),
            profile=profile,
            settings=settings,
            informers=cast(SharedInformers, _Listing(lists, str(api.version))),
        )
        self._controller, self._work = made._reservations, made._reservation_parts.work
        self._work._queue.close()  # what is to be done is asked for here
        self._work._consumption_writes._queue.close()
        subscribed = list(made._cache.subscriptions._subscribed.items())
        for listed, subscription in reversed(subscribed) if pods_first else subscribed:
            for one in listed:
                for handle in subscription.handlers:
                    handle(Change("ADDED", one))

    @property
    def known(self) -> Known:
        return known_to(self._scheduler)

    def begin(self) -> Steps:
        """Every status is worked out anew, then one session decides, and what it holds is worked out, too."""
        written = self._api.written
        names = self._scheduler._cache.snapshot.reservations.names()
        while names:
            for key in names:
                _at_once(self._controller._reconcile(key))
            waiting = sorted(self._work._awaiting_others)  # for what becomes of others
            names = waiting if waiting != names else []
        settled = dict(written)
        bound = self._decide()
        pods = {one.metadata.uid: one for one in (*self._lists[kinds.POD.qualified_name], *bound)}
        before = {key_of(one): one for one in self._lists[kinds.RESERVATION.qualified_name]}
        return Steps(settled, before | written, pods, bound)

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
            _at_once(self._controller._reconcile(key))
        return bound

    def _bound(self, assign: Assign) -> Pod:
        """A pod as its Binding would make it."""
        pod, cycle = assign.pod, self._scheduler._cycle
        notes = {**(pod.metadata.annotations or {}), **(cycle._annotations(cycle._seat_to_consume(pod)) or {})}
        metadata = replace(pod.metadata, annotations=notes)
        return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=assign.node))


class _Listed:
    """An informer of a kind that has its list, and will never hear of anything else."""

    def __init__(self, kind: Kind[Any], items: list[Any], version: str) -> None:
        self.kind = kind
        self.version = version
        self._items = {key_of(one): one for one in items}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items.values())

    def get(self, name: str, namespace: str | None = None) -> Any:
        return self._items.get((namespace or "", name))


class _Listing:
    """The informers of a process that has listed everything."""

    def __init__(self, lists: Lists, version: str) -> None:
        self._lists = lists
        self._version = version
        self._made: dict[str, _Listed] = {}

    def get(self, kind: Kind[Any], *, namespace: str | None = None, fields: str | None = None) -> _Listed:
        name = kind.qualified_name
        if name not in self._made:
            self._made[name] = _Listed(kind, self._lists.get(name, []), self._version)
        return self._made[name]


class _Unwritten:
    """The API server as it is. Statuses of reservations that are written to it are noted, and nothing else."""

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


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """What comes of work that waits for nobody."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    work.close()
    raise AssertionError("it waits for something")

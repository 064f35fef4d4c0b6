"""Holding: the status of our reservations, kept true.

Goes in: decisions to hold seats or not, pods that were bound into them, everything that happens to reservations, nodes
and pods, and time. Comes out: patches of reservations/status, each guarded by the version it was worked out from, and
Events.

Nothing is remembered that the API could not tell: a pass looks at a reservation, its seats in the snapshot and the pods
that took them, works the status out anew (`scheduling/reservations/lifecycle`) and writes it if it differs. Seats that
were decided are assumed meanwhile, and stay so until it is known what became of the write; placements and the phase are
one write, so nothing is Available before it says where. Before a reservation fails because of its node, the node and
the pods on it are read afresh: no cache that is behind ends anything.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable

import msgspec

from restow.client.events import EventRecorder
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.scheduler.feed import Feed
from restow.control.scheduler.marks import Marks
from restow.control.scheduler.outcomes import Taken
from restow.control.scheduler.settings import Settings
from restow.control.scheduler.takers import Takers, mark_of, works_for
from restow.control.scheduler.telling import about
from restow.control.scheduler.tickets import key_of
from restow.model.cluster import SeatName
from restow.model.cluster.seat import is_ended, is_expired, migrating_pod
from restow.model.kinds import NODE, POD, RESERVATION
from restow.model.objects import (
    Placement,
    Pod,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from restow.model.pods import is_finished
from restow.model.problems import Problem
from restow.model.times import TimeError
from restow.model.wire import WireError
from restow.ports import JSON_PATCH, ApiError, Clock, Forbidden, Invalid, NotFound
from restow.scheduling.decisions import Assign, Decline, Hold
from restow.scheduling.engine import Engine
from restow.scheduling.reservations.lifecycle import Facts, Found, next_status
from restow.scheduling.reservations.standing import Troubled, blocked, lost_beside, seats_on, troubles
from restow.scheduling.reservations.validity import has_grown, problems
from restow.scheduling.roster import Key

log = logging.getLogger(__name__)

_WARNINGS = (ReservationPhase.PENDING, ReservationPhase.FAILED)
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_NEVER = math.inf
_MARK_DELAY, _LONGEST_MARK_DELAY = 0.25, 1.0
"""Seconds to wait for more pods of a reservation before their seats are marked, since they come in swarms; and while
others are known to be on their way."""


class Holding:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        feed: Feed,
        engine: Engine,
        settings: Settings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._feed = feed
        self._tickets = feed.tickets
        self._snapshot = feed.snapshot
        self._book = feed.snapshot.reservations
        self._engine = engine
        self._settings = settings
        self._takers = Takers(feed.snapshot.kinship)
        self.marks = Marks(settings)
        self._queue: WorkQueue[Key] = WorkQueue(base=0.1, cap=10.0)
        self._live: set[Key] = set()
        """Ours, and not ended."""
        self._refusals: dict[Key, tuple[int | None, str]] = {}
        """Why there is no room for what is missing, and the generation that this was said of."""
        self._hoping: set[Key] = set()
        """Given seats that others are still leaving, which their status does not say yet."""
        self._refused: dict[Key, int] = {}
        """How often in a row the server refused what was to be written."""
        self._resume: dict[Key, float] = {}
        """When seats are looked for again that could not be written down."""
        self._written: dict[Key, str] = {}
        """The versions that we wrote ourselves: seeing them is no news."""
        self._watched: dict[str, set[Key]] = {}
        """Nodes on which something has to happen before these reservations can be relied on."""
        self._watching: dict[Key, set[str]] = {}
        """The same, by reservation."""
        self._checked: dict[Key, tuple[tuple[str, int | None], list[Problem]]] = {}
        feed.on_node = self._node_changed
        feed.on_pod = self._pod_changed
        feed.tickets.on_change = self._reservation_changed
        feed.tickets.is_valid = lambda reservation: not self._problems(reservation)

    # --- what was decided ---------------------------------------------------------------------------------------------

    def held(self, hold: Hold) -> None:
        """Seats were found; they are assumed."""
        key = key_of(hold.reservation)
        self._refusals.pop(key, None)
        if hold.waiting:
            self._hoping.add(key)
        self._queue.add(key)

    def declined(self, decline: Decline) -> None:
        """There is no room for what is missing."""
        self._refusals[key_of(decline.reservation)] = (decline.reservation.metadata.generation, decline.message)
        self._queue.add(key_of(decline.reservation))

    def bound(self, assign: Assign, taken: Taken | None) -> None:
        """A pod was bound, into a seat or not. The seat may have been released, or be another one, by now."""
        seat = self._book.seat(taken.seat) if taken is not None else None
        if taken is None or seat is None or (seat.life, seat.node, seat.consumer) != (taken.life, assign.node, None):
            return
        self._takers.bound(assign.pod, seat)
        if self._feed.latest(assign.pod) is None:  # it has come and gone before we were told
            self._pod_changed(assign.pod, True)

    # --- what happened ------------------------------------------------------------------------------------------------

    def _reservation_changed(self, reservation: Reservation, gone: bool) -> None:
        key = key_of(reservation)
        if gone or is_ended(reservation):
            self._live.discard(key)
            self._hoping.discard(key)
            self._refused.pop(key, None)
            self._resume.pop(key, None)
            self._refusals.pop(key, None)
            self._watch(key, ())
        else:
            self._live.add(key)
        if gone:
            self._checked.pop(key, None)
            self._takers.forget(*key)
        for seat in self._book.seats(*key):
            self._spend(seat.name)
        if gone or self._written.get(key) != reservation.metadata.resource_version:
            self._written.pop(key, None)
            self._queue.add(key)

    def _node_changed(self, node: str) -> None:
        seated = {(seat.namespace, seat.reservation) for seat in seats_on(self._snapshot, node)}
        for key in sorted(seated | self._watched.get(node, set())):
            self._queue.add(key)

    def _pod_changed(self, pod: Pod, gone: bool) -> None:
        seat = self._takers.hide(pod, self._is_open) if gone else self._takers.show(pod)
        if gone or is_finished(pod):
            self._spend(seat or self._takers.seat_of(pod))
        if gone or is_finished(pod) or pod.metadata.deletion_timestamp is not None:
            self._mark(seat or self._takers.seat_of(pod), at_once=True)
        elif seat is not None:
            self._mark(seat)
        node = pod.spec.node_name
        if node and self._live and (node in self._watched or self._is_crowded(node)):
            self._node_changed(node)

    def _mark(self, name: SeatName | None, *, at_once: bool = False) -> None:
        """Let it be written down who took a seat; with others who come as well, if there are any. Nothing but the pod
        says so until then: where it is about to go, at once; and whoever moves a pod waits for it."""
        seat = self._book.seat(name) if name is not None else None
        if name is None or seat is None or seat.consumer is not None:
            return
        key = (name.namespace, name.reservation)
        reservation = self._book.get(*key)
        if at_once or (reservation is not None and migrating_pod(reservation) is not None):
            self._queue.add(key)
        elif self._book.promises.any_coming(seat.life):
            self.marks.ask(key, _LONGEST_MARK_DELAY)
        else:
            self.marks.ask(key, _MARK_DELAY if self._book.vacancies.seats(*key) else 0.0)

    def _is_open(self, name: SeatName) -> bool:
        seat = self._book.seat(name)
        return seat is not None and seat.consumer is None

    def _spend(self, name: SeatName | None) -> None:
        """Nobody may take a seat that was taken, although nobody sits there and nothing says so yet."""
        seat = self._book.seat(name) if name is not None else None
        if seat is None or seat.consumer is not None or self._book.taker(seat.name) is not None:
            return
        if self._takers.of(seat) is not None:
            self._book.spend(seat.name)

    def _is_crowded(self, node: str) -> bool:
        row = self._snapshot.rows.find(node)
        return row is not None and self._snapshot.room.is_overdrawn(row)

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin; only once everything that exists was seen, because what was not seen looks as if it were gone."""
        for number in range(self._settings.status_writers):
            tasks.create_task(self._run(), name=f"scheduler reservations {number}")
        tasks.create_task(self.marks.run(self._queue.add), name="scheduler marks")
        tasks.create_task(self._look_round(), name="scheduler expiry check")

    async def _run(self) -> None:
        while True:
            async with self._queue.next() as key:
                self.marks.begun(key)
                try:
                    await self._pass(key)
                except (ApiError, WireError) as error:
                    log.info("reservation not settled", extra={"reservation": "/".join(key), "err": str(error)})
                    self._queue.retry(key)
                except Exception:  # one reservation's trouble must not stop the others
                    log.exception("reservation not settled", extra={"reservation": "/".join(key)})
                    self._queue.retry(key)
                else:
                    self._queue.forget(key)
                finally:
                    self.marks.ended(key)

    async def _look_round(self) -> None:
        """What happens by itself: time passes. And what nobody is told of: filters that depend on the whole cluster."""
        while True:
            await asyncio.sleep(self._settings.expiry_check)
            now = self._clock.now()
            for key in sorted(self._live):
                reservation = self._book.get(*key)
                waits = reservation is not None and reservation.status.state.phase == ReservationPhase.WAITING
                if reservation is not None and (waits or _is_due(reservation, now)):
                    self._queue.add(key)
            for reservation, age in list(self._book.assumed(now)):
                if age >= self._settings.leak_age:
                    self._queue.add(key_of(reservation))

    # --- a pass -------------------------------------------------------------------------------------------------------

    async def _pass(self, key: Key) -> None:
        """Look at one reservation, and write its status if it is to be another."""
        reservation = self._book.get(*key)
        if reservation is None or _is_done_with(reservation) or not self._tickets.is_ours(reservation):
            return
        if self._resume.get(key, _NEVER) <= self._clock.now():
            del self._resume[key]
            self._look_for_seats(key)
        facts = self._look(reservation)
        lost = sorted({one.placement.node_name for one in facts.seats if one.is_lost})
        if lost:
            await self._read_afresh(lost)
            reservation = self._book.get(*key)
            if reservation is None:
                return
            facts = self._look(reservation)
        facts = self._without_lost_hopes(reservation, facts)
        status = next_status(reservation, facts, self._clock.now())
        if status is not None and status.state.phase != ReservationPhase.FAILED and self._has_to_wait(reservation):
            return
        self._watch(key, {one.placement.node_name for one in facts.seats if not one.is_ready})
        written = status is None or await self._write(reservation, status)
        self._hoping.discard(key)
        for one in facts.seats if written else ():
            if one.is_taken:
                self._takers.settle(_name(reservation, one.placement))

    def _look(self, reservation: Reservation) -> Facts:
        self._feed.catch_up()
        now = self._clock.now()
        found = troubles(self._snapshot, self._engine, self._book.seats(*key_of(reservation)), now)
        if reservation.status.state.phase == ReservationPhase.WAITING or key_of(reservation) in self._hoping:
            found = blocked(self._snapshot, self._engine, reservation, now) | found
        seats = [self._found(reservation, placement, found) for placement in self._placements(reservation)]
        generation, refusal = self._refusals.get(key_of(reservation), (None, None))
        said = refusal if generation == reservation.metadata.generation else None
        return Facts(seats=seats, problems=self._problems(reservation), refusal=said)

    def _has_to_wait(self, reservation: Reservation) -> bool:
        """Whether more is asked for here than was given, and it is not known yet whether there is room for it: others
        have lost their seats, which is not written yet, or pods are on their way to seats that have grown."""
        if not has_grown(reservation):
            return False
        own = key_of(reservation)
        lost = lost_beside(self._snapshot, self._engine, reservation, self._clock.now())
        others = {(name.namespace, name.reservation) for name in lost} & self._live - {own}
        for key in sorted(others - self._resume.keys()):  # else there is a pause before its next try
            self._queue.add(key)
        expected = any((name.namespace, name.reservation) == own and self._book.expects(name) for name in lost)
        if others or expected:
            self._queue.add_after(own, _MARK_DELAY)
        return bool(others) or expected

    def _found(self, reservation: Reservation, placement: Placement, found: dict[SeatName, Troubled]) -> Found:
        name = _name(reservation, placement)
        seat = self._book.seat(name)
        pod = self._takers.of(seat) if placement.pod_ref is None and seat is not None else None
        if pod is None:
            return Found(placement, found.get(name))
        return Found(msgspec.structs.replace(placement, pod_ref=mark_of(pod)), owner=works_for(pod))

    def _placements(self, reservation: Reservation) -> list[Placement]:
        """Those the status shows, each seat once, and those that are assumed beyond it."""
        shown = {(one.task, one.index): one for one in reservation.status.placements or ()}
        seats = self._book.seats(*key_of(reservation))
        assumed = [seat for seat in seats if (seat.name.task, seat.name.index) not in shown]
        more = [Placement(task=one.name.task, index=one.name.index, node_name=one.node) for one in assumed]
        return [*shown.values(), *more]

    def _without_lost_hopes(self, reservation: Reservation, facts: Facts) -> Facts:
        """Seats that were decided and lost before they were written: they are given back and looked for anew."""
        shown = {(one.task, one.index) for one in reservation.status.placements or ()}
        fresh = [one for one in facts.seats if (one.placement.task, one.placement.index) not in shown]
        if not any(one.is_lost for one in fresh):
            return facts
        self._tickets.give_back(reservation)
        self._look_for_seats(key_of(reservation))
        return msgspec.structs.replace(facts, seats=[one for one in facts.seats if one not in fresh])

    def _pause(self, key: Key) -> None:
        """Before the next try, longer each time."""
        self._refused[key] = times = self._refused.get(key, 0) + 1
        delay = float(min(_SHORTEST_PAUSE * 2 ** min(times, 10), _LONGEST_PAUSE))
        self._resume[key] = self._clock.now() + delay
        self._queue.add_after(key, delay + _MARK_DELAY)

    def _look_for_seats(self, key: Key) -> None:
        self._tickets.issue(key)
        self._feed.changed.set()

    def _problems(self, reservation: Reservation) -> list[Problem]:
        key, version = key_of(reservation), (reservation.metadata.uid, reservation.metadata.generation)
        known = self._checked.get(key)
        if known is None or known[0] != version or version[1] is None:
            known = self._checked[key] = (version, problems(reservation))
        return known[1]

    def _watch(self, key: Key, nodes: Iterable[str]) -> None:
        wanted = set(nodes)
        for node in self._watching.pop(key, set()) - wanted:
            self._watched[node].discard(key)
            if not self._watched[node]:
                del self._watched[node]
        if wanted:
            self._watching[key] = wanted
        for node in wanted:
            self._watched.setdefault(node, set()).add(key)

    # --- reading and writing ------------------------------------------------------------------------------------------

    async def _read_afresh(self, nodes: Iterable[str]) -> None:
        """The nodes and everybody on them, as they are now. The watches go on meanwhile, so only who was known before a
        list was asked for can be missing in it. What is as it was is no news: nobody looks again because of it."""
        for name in nodes:
            known = self._snapshot.node(name)
            try:
                node = await self._client.get(NODE, name)
                if known is None or known.metadata.resource_version != node.metadata.resource_version:
                    self._feed.show_node(node)
            except NotFound:
                if known is not None:
                    self._feed.hide_node(known)
            there = [one for one in self._snapshot.occupants(name) if one.book == "requested"]
            gone = {one.key: one.pod for one in there if one.assumed_at is None}
            for pod in (await self._client.list(POD, fields={"spec.nodeName": name})).items:
                gone.pop(pod.metadata.uid, None)
                if self._feed.is_news(pod):
                    self._feed.show(pod)
            for one in gone.values():
                self._feed.hide(one)

    async def _write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        """Whether it is written; if not, and nothing is raised, there is nothing to be done about it now."""
        meta = reservation.metadata
        try:
            written = await self._client.patch(
                RESERVATION,
                meta.name,
                [{"op": "add", "path": "/status", "value": msgspec.to_builtins(status)}],
                meta.namespace,
                type=JSON_PATCH,
                subresource="status",
                resource_version=meta.resource_version,
            )
        except NotFound:
            self._tickets.hide(reservation)
            return False
        except (Invalid, Forbidden) as error:  # nothing that comes of itself will change it: hold nothing meanwhile
            log.error("reservation not written", extra={"reservation": meta.name, "err": str(error)})
            self._tickets.give_back(reservation)
            self._pause(key_of(reservation))
            return False
        except ApiError:  # it may have moved on, or be written although it seemed to fail: read it, and look again
            await self._read_again(reservation)
            raise
        self._written[key_of(written)] = written.metadata.resource_version
        self._refused.pop(key_of(written), None)
        self._tickets.show(written)
        self._feed.changed.set()
        self._tell(reservation, status)
        return True

    async def _read_again(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            now = await self._client.get(RESERVATION, meta.name, meta.namespace)
        except NotFound:
            self._tickets.hide(reservation)
            return
        self._tickets.show(now)
        if now.metadata.generation != meta.generation:  # what was decided was decided for another spec
            self._tickets.give_back(now)
            self._look_for_seats(key_of(now))

    def _tell(self, reservation: Reservation, status: ReservationStatus) -> None:
        """An Event where the phase or its reason is new; of one that waits for room also where the message is."""
        old, new = reservation.status.state, status.state
        if (old.phase, old.reason) == (new.phase, new.reason) and not (
            new.phase == ReservationPhase.PENDING and old.message != new.message
        ):
            return
        log.info("reservation", extra={"reservation": reservation.metadata.name, "phase": new.phase})
        self._recorder.record(
            about(RESERVATION, reservation.metadata),
            new.reason or new.phase or "",
            new.message or "",
            type="Warning" if new.phase in _WARNINGS else "Normal",
        )


def _name(reservation: Reservation, placement: Placement) -> SeatName:
    return SeatName(*key_of(reservation), placement.task, placement.index)


def _is_done_with(reservation: Reservation) -> bool:
    """Whether it has ended, and all that was taken is marked."""
    return is_ended(reservation) and all(one.pod_ref is not None for one in reservation.status.placements or ())


def _is_due(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:  # the pass says so
        return True

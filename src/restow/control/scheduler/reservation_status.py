"""Holding: the status of our reservations, kept true.

Goes in: decisions to hold seats or not, pods that were bound into them, everything that happens to reservations, nodes
and pods, and time. Comes out: patches of reservations/status, each guarded by the version it was worked out from, and
Events.

Nothing is remembered that the API could not tell: a pass looks at a reservation, its seats in the snapshot and the pods
that took them (`findings`), works the status out anew (`scheduling/reservations/lifecycle`) and writes it if it differs
(`statuses`). Seats that were decided are assumed meanwhile, and stay so until it is known what became of the write;
placements and the phase are one write, so nothing is Available before it says where. Before a reservation fails because
of its node, the node and the pods on it are read afresh.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from itertools import count

from msgspec.structs import replace

from restow.client.events import EventRecorder
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.scheduler.live_reads import LiveReads
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.reservation_observation import ReservationObserver
from restow.control.scheduler.consumption_writes import ConsumptionWrites
from restow.control.scheduler.binding_outcomes import ConsumedSeat
from restow.control.scheduler.settings import SchedulerSettings
from restow.control.scheduler.reservation_status_writer import ReservationStatusWriter
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.takers import Takers
from restow.model.cluster import SeatName
from restow.model.cluster.names import Key, key_of
from restow.model.cluster.pods import is_stale
from restow.model.cluster.seat import is_ended, is_expired, migrating_pod
from restow.model.objects import Pod, Reservation, ReservationPhase, ReservationStatus
from restow.model.pods import is_finished
from restow.model.times import TimeError
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, Forbidden, Invalid
from restow.scheduling.decisions import Assign, Decline, Hold
from restow.scheduling.engine import Engine
from restow.scheduling.reservations.lifecycle import Facts, Found, next_status
from restow.scheduling.reservations.standing import Trouble, is_unsettled, lost_beside, seats_on
from restow.scheduling.reservations.validity import has_grown

log = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_NEVER = math.inf
_SEATS_A_ROUND = 200
"""Of a reservation that waits; asking the filters about them takes some hundredths of a second."""
_MARK_DELAY, _LONGEST_MARK_DELAY = 0.25, 1.0
"""Seconds to wait for more pods of a reservation before their seats are marked, since they come in swarms; and while
others are known to be on their way."""


class ReservationStatusController:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        feed: EventHandlers,
        engine: Engine,
        settings: SchedulerSettings,
    ) -> None:
        self._clock = clock
        self._feed = feed
        self._tickets = feed.tickets
        self._snapshot = feed.snapshot
        self._book = feed.snapshot.reservations
        self._engine = engine
        self._settings = settings
        self._takers = Takers(self._book)
        self._findings = ReservationObserver(feed, engine, self._takers, settings.namespace_share)
        self._afresh = LiveReads(client, feed)
        self._statuses = ReservationStatusWriter(client, recorder, feed)
        self.marks = ConsumptionWrites(settings)
        self._queue: WorkQueue[Key] = WorkQueue(base=0.1, cap=10.0)
        self._live: set[Key] = set()
        """Ours, and not ended."""
        self._refused: dict[Key, int] = {}
        """How often in a row the server refused what was to be written."""
        self._resume: dict[Key, float] = {}
        """When seats are looked for again that could not be written down."""
        self._behind: set[Key] = set()
        """Those that ask for more than they were given, until it is known whether there is room for it."""
        self._watched: dict[str, set[Key]] = {}
        """Nodes on which something has to happen before these reservations can be relied on."""
        self._watching: dict[Key, set[str]] = {}
        """The same, by reservation."""
        feed.on_node = self._node_changed
        feed.on_pod = self._pod_changed
        feed.tickets.on_change = self._reservation_changed
        feed.tickets.is_valid = lambda reservation: not self._findings.problems(reservation)

    # --- what was decided ---------------------------------------------------------------------------------------------

    def held(self, hold: Hold) -> None:
        """Seats were found; they are assumed."""
        key = key_of(hold.reservation)
        self._findings.held(key, hopes=hold.waiting)
        self._queue.add(key)

    def declined(self, decline: Decline) -> None:
        """There is no room for what is missing."""
        self._findings.declined(decline.reservation, decline.message)
        self._queue.add(key_of(decline.reservation))

    def bound(self, assign: Assign, taken: ConsumedSeat | None) -> None:
        """A pod was bound, into a seat or not. The seat may have been taken away, or be elsewhere, by now."""
        if taken is None:
            self.missed(assign)
            return
        key = (taken.seat.namespace, taken.seat.reservation)
        reservation = self._book.get(*key)
        if reservation is None or reservation.metadata.uid != taken.reservation_uid or self._takers.is_marked(taken.seat):
            return
        self._takers.bound(assign.pod, assign.node, taken.seat, taken.reservation_uid)
        if self._feed.latest(assign.pod) is None:  # it has come and gone before we were told
            self._pod_changed(assign.pod, True)
        elif self._book.seat(taken.seat) is None:
            self._queue.add(key)

    def missed(self, assign: Assign) -> None:
        """A pod has not taken the seat that it was given, and will not. If that was taken away meanwhile and is asked
        for again, it can be placed now."""
        if assign.seat is not None:
            self._book.promises.end(assign.pod.metadata.uid)
            self._feed.look_for_seats((assign.seat.namespace, assign.seat.reservation))
            if assign.node in self._watched:
                self._node_changed(assign.node)

    # --- what happened ------------------------------------------------------------------------------------------------

    def _reservation_changed(self, reservation: Reservation, gone: bool) -> None:
        key = key_of(reservation)
        if gone or is_ended(reservation):
            self._live.discard(key)
            self._findings.ended(key)
            self._refused.pop(key, None)
            self._resume.pop(key, None)
            self._watch(key, ())
        else:
            self._live.add(key)
        if gone:
            self._findings.gone(key)
            self._takers.forget(*key)
        for name in self._takers.named(*key):
            self._spend(name)
        self._let_look_again()
        if self._statuses.heard(reservation, gone=gone):
            self._queue.add(key)

    def _node_changed(self, node: str) -> None:
        seated = {(seat.namespace, seat.reservation) for seat in seats_on(self._snapshot, node)}
        for key in sorted(seated | self._watched.get(node, set())):
            self._queue.add(key)

    def _pod_changed(self, pod: Pod, gone: bool) -> None:
        seat = self._takers.hide(pod) if gone else self._takers.show(pod)
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
        says so until then: where it is about to go, at once; and whoever moves a pod waits for it. So may others for
        what a pod leaves of its seat."""
        if name is None or self._takers.is_marked(name):
            return
        key, seat = (name.namespace, name.reservation), self._book.seat(name)
        reservation = self._book.get(*key)
        if at_once or seat is None or (reservation is not None and migrating_pod(reservation) is not None):
            self._queue.add(key)
            return
        delay = _MARK_DELAY if self._book.vacancies.seats(*key) else 0.0
        delay = _LONGEST_MARK_DELAY if self._book.promises.any_coming(seat.life) else delay
        if self._book.keeps(name):
            self._queue.add_after(key, delay)
        else:
            self.marks.ask(key, delay)

    def _spend(self, name: SeatName | None) -> None:
        """Nobody may take a seat that was taken, although nobody sits there and nothing says so yet."""
        if name is None or self._takers.is_marked(name) or self._book.taker(name) is not None:
            return
        if self._takers.of(name) is not None:
            self._book.spend(name)

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
        """What happens by itself: time passes. And what nobody is told of: filters that depend on the whole cluster.
        These are asked about every seat, so about many seats less often."""
        for number in count():
            await asyncio.sleep(self._settings.expiry_check)
            now = self._clock.now()
            for key in sorted(self._live):
                reservation = self._book.get(*key)
                if reservation is None:
                    continue
                asks = is_unsettled(reservation) and number % _rounds_between(reservation) == 0
                if asks or _is_due(reservation, now):
                    self._queue.add(key)
            for reservation, age in list(self._book.assumed(now)):
                if is_stale(age, self._settings.leak_age):
                    self._queue.add(key_of(reservation))

    # --- a pass -------------------------------------------------------------------------------------------------------

    async def _pass(self, key: Key) -> None:
        """Look at one reservation, and write its status if it is to be another."""
        self._behind.discard(key)
        reservation = self._ours(key)
        if reservation is None:
            return
        if self._resume.get(key, _NEVER) <= monotonic_time():
            del self._resume[key]
            self._feed.look_for_seats(key)
        facts = self._findings.look(reservation, self._clock.now())
        lost = sorted({one.placement.node_name for one in facts.seats if one.is_lost})
        if lost:
            await self._afresh.read(lost)
            reservation = self._ours(key)
            if reservation is None:
                return
            facts = self._findings.look(reservation, self._clock.now())
        facts = self._without_lost_hopes(reservation, facts)
        status = next_status(reservation, facts, self._clock.now())
        if status is not None and not _fails_anyway(status) and self._has_to_wait(reservation):
            self._behind.add(key)
            self._watch(key, {one.placement.node_name for one in facts.seats})
            return
        moves = migrating_pod(reservation) is not None
        self._watch(key, {one.placement.node_name for one in facts.seats if moves or not one.is_ready})
        written = status is None or await self._write(reservation, status)
        if written:
            self._findings.written(key)
        for one in facts.seats if written else ():
            if one.is_taken:
                self._takers.settle(SeatName.of(key, one.placement))

    def _ours(self, key: Key) -> Reservation | None:
        """A reservation that is there, is ours, and has something left to be written."""
        reservation = self._book.get(*key)
        if reservation is None or _is_done_with(reservation) or not self._tickets.is_ours(reservation):
            return None
        return reservation

    async def _write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        try:
            written = await self._statuses.write(reservation, status)
        except (Invalid, Forbidden) as error:  # hold nothing meanwhile
            log.error("reservation not written", extra={"reservation": reservation.metadata.name, "err": str(error)})
            self._give_back(reservation)
            self._feed.changed.set()
            self._pause(key_of(reservation))
            return False
        self._refused.pop(key_of(reservation), None)
        return written

    def _has_to_wait(self, reservation: Reservation) -> bool:
        """Whether more is asked for here than was given, and it is not known yet whether there is room for it: others
        have lost their seats, which is not written yet, or pods are on their way to seats that have grown. It is looked
        at again when something happens on its nodes, or to other reservations."""
        if not has_grown(reservation):
            return False
        own = key_of(reservation)
        lost = lost_beside(self._snapshot, self._engine, reservation, self._clock.now())
        others = {(name.namespace, name.reservation) for name in lost} & self._live - {own}
        for key in sorted(others - self._resume.keys()):  # else there is a pause before its next try
            self._queue.add(key)
        expected = any((name.namespace, name.reservation) == own and self._book.expects(name) for name in lost)
        return bool(others) or expected

    def _let_look_again(self) -> None:
        """What others hold has changed, for which some wait."""
        for key in sorted(self._behind):
            self._queue.add(key)

    def _give_back(self, reservation: Reservation) -> None:
        """Seats that were decided are not to be."""
        self._tickets.give_back(reservation)
        self._let_look_again()

    def _without_lost_hopes(self, reservation: Reservation, facts: Facts) -> Facts:
        """Seats that were decided and lost before they were written: they are given back and looked for anew."""
        settled, hopes = told_apart(reservation, facts.seats)
        if not any(one.is_lost for one in hopes):
            return facts
        self._give_back(reservation)
        self._feed.look_for_seats(key_of(reservation))
        return replace(facts, seats=settled)

    def _pause(self, key: Key) -> None:
        """Before the next try, longer each time."""
        self._refused[key] = times = self._refused.get(key, 0) + 1
        delay = float(min(_SHORTEST_PAUSE * 2 ** min(times, 10), _LONGEST_PAUSE))
        self._resume[key] = monotonic_time() + delay
        self._queue.add_after(key, delay + _MARK_DELAY)

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


def told_apart(reservation: Reservation, seats: Iterable[Found]) -> tuple[list[Found], list[Found]]:
    """The seats that were taken or that its status shows, and those that were only decided."""
    key, settled, hopes = key_of(reservation), list[Found](), list[Found]()
    shown = {SeatName.of(key, one) for one in reservation.status.placements or ()}
    for one in seats:
        is_settled = one.is_taken or SeatName.of(key, one.placement) in shown
        (settled if is_settled else hopes).append(one)
    return settled, hopes


def _rounds_between(reservation: Reservation) -> int:
    return 1 + len(reservation.status.placements or ()) // _SEATS_A_ROUND


def _is_done_with(reservation: Reservation) -> bool:
    """Whether it has ended, and all that was taken is marked."""
    return is_ended(reservation) and all(one.pod_ref is not None for one in reservation.status.placements or ())


def _fails_anyway(status: ReservationStatus) -> bool:
    """Whether it fails, whatever becomes of others: if they lose seats, a limit may leave room for this one."""
    return status.state.phase == ReservationPhase.FAILED and status.state.reason != Trouble.LIMIT_EXCEEDED


def _is_due(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:  # the pass says so
        return True

"""A session: one snapshot, the jobs that have something to place, and the actions that decide about them in turn.

Goes in: the snapshot as it is now (it is changed: what is decided is assumed), the engine, the roster, the pods to
place and those that wait with a nominated node. Comes out: decisions in order, at least one for every pod that is not
`postponed`. What was only kept for somebody during the session is given back when it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf

import msgspec

from restow.model.cluster import Mask, Occupant, PodClass
from restow.model.object_key import key_of
from restow.model.objects import Pod, Reservation
from restow.model.pods import scheduler_of
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.reservation_annotations import awaited_pods, migrating_pod
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.task_sizes import Sizes
from restow.model.resources import Vector
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from restow.scheduling.accelerated import ClassFilter
from restow.scheduling.decisions import (
    Assign,
    Decision,
    HoldSeats,
    Nominate,
    RecordEvent,
    RefusePod,
    RefuseReservation,
    SetPodGroupStatus,
)
from restow.scheduling.engine import Engine
from restow.scheduling.expected_ends import ExpectedEnd, expected_ends, latest_end, terminating_pods
from restow.scheduling.framework import Code, Cycle, FilterPlugin, Reach
from restow.scheduling.jobs import Job, is_gang_broken, jobs_of_pods, jobs_of_reservations
from restow.scheduling.nominated_pods import recheck_without_nominated_pods
from restow.scheduling.pod_group_cache import PodGroupCache, requests_of
from restow.scheduling.pod_group_status import pod_group_status
from restow.scheduling.queue_shares import QueueShares
from restow.scheduling.schedule_result import Placed, Unplaced
from restow.scheduling.statement import Statement

NAMESPACE_SHARE = 50
"""In percent."""


class Kept(msgspec.Struct, frozen=True):
    """Room that is kept for a pod during the session."""

    pod: Pod
    node: str
    until: float | None
    """When the pod will take it; None if nobody knows."""


Action = Callable[["Session"], None]
NOBODY: Mapping[str, str] = {}


class Session:
    def __init__(
        self,
        snapshot: Snapshot,
        engine: Engine,
        roster: PodGroupCache,
        *,
        now: float,
        pods: Sequence[Pod],
        reservations: Sequence[Reservation] = (),
        nominated: Iterable[Pod] = (),
        namespace_share: int = NAMESPACE_SHARE,
        cut: Collection[str] = (),
        names: frozenset[str] | None = None,
    ) -> None:
        """`reservations` are those that have something left to place. `namespace_share` is how much of what the cluster
        offers one namespace may hold by reservations, in percent of every resource. `names` are the schedulers that are
        played here, which the pods say where nobody else does."""
        self.snapshot = snapshot
        self.engine = engine
        self.roster = roster
        self.now = now
        self.jobs = jobs_of_pods(pods, roster, snapshot, engine.sort)
        """In order, as long as they have something to place and nobody decided about them."""
        if reservations:
            self.jobs += jobs_of_reservations(reservations, roster, snapshot)
            self.jobs.sort(key=lambda job: job.order(engine.sort))
        self.names = frozenset(map(scheduler_of, pods)) if names is None else names
        self.namespace_share = namespace_share
        self.shares = QueueShares(roster, snapshot)
        self.cut = cut
        """Queues of which more is waiting, behind what is here."""
        self.postponed: list[Pod | Reservation] = []
        """What nobody decided about, because something that is not here comes before it."""
        self.held_up: set[str] = set()
        """Queues whose first waiting job has room kept for it: what is behind it is left to backfill."""
        self.only_seats = False
        """Whether pods get what is held for them, and nothing else."""
        self.seekers: set[Job] = set()
        """Those who need more than the seats that they have, and take both when it is their turn."""
        self.sizes = Sizes()
        self.refusing: dict[PodClass, set[SeatName]] = {}
        """The seats that have refused a pod of a class."""
        self.in_vain = 0
        """How many seats have refused a pod."""
        self._decisions: list[Decision] = []
        self._holds: dict[Job, int] = {}
        self._kept: list[Kept] = []
        self._endings: list[ExpectedEnd] | None = None
        self._individual = _looking_closely(engine)
        self._refused: dict[PodClass, tuple[tuple[int, int], Unplaced]] = {}
        self._suited: dict[PodClass, Mask] = {}
        self._leaving: tuple[int, list[Occupant]] = (-1, [])
        self._tried: list[Job] = list(self.jobs)
        self._said: dict[str, str] = {}
        self._nominated = self._by_importance(nominated, pods)

    def run(self, actions: Iterable[Action]) -> list[Decision]:
        """Carry the actions out and close."""
        try:
            for action in actions:
                action(self)
        finally:
            for kept in reversed(self._kept):
                self.snapshot.forget(kept.pod)
        for job in self.jobs:
            self._refuse(job, Code.UNSCHEDULABLE, f"queue {job.queue} waits for an earlier job", ())
        self._conclude()
        return self._decisions

    @property
    def decided(self) -> Sequence[Decision]:
        """What was decided so far and stands, whatever broke afterwards."""
        return self._decisions

    # --- for actions --------------------------------------------------------------------------------------------------

    def place(self, cycle: Cycle) -> Placed | Unplaced:
        """The best node now. Pods of a class that was refused are refused alike until something changes."""
        known = self._refused.get(cycle.pod_class)
        if known is not None and known[0] == self._state():
            return known[1]
        found = self.engine.place(cycle)
        if isinstance(found, Placed) and self._kept and cycle.pod_class.shape.readings:
            found = recheck_without_nominated_pods(self.engine, cycle, found, [kept.pod for kept in self._kept])
        if isinstance(found, Unplaced) and self._refuses_alike(found):
            self._refused[cycle.pod_class] = (self._state(), found)
        return found

    def _refuses_alike(self, found: Unplaced) -> bool:
        """Whether a refusal is good for all pods of the class: a nominated one has room of its own in prospect, and a
        plugin that looks at each pod for itself may like the next one."""
        return not found.nominated and found.plugins.isdisjoint(self._individual)

    def find(self, job: Job, cycle: Cycle) -> Placed | Unplaced:
        """`place` for a pod of this job. A stand-in goes to the first of the nodes that its task names and that accepts
        it; the pod that its reservation is to move is taken for gone, but for the room it takes."""
        if job.reservation is None:
            return self.place(cycle)
        mover = migrating_pod(job.reservation)
        if mover is None:
            return self._first_named(job, cycle) or self.place(cycle)
        with self.snapshot.overlooking(mover):  # what is refused so is refused to nobody else
            return self._first_named(job, cycle) or self.engine.place(cycle)

    def _first_named(self, job: Job, cycle: Cycle) -> Placed | None:
        fitting = (node for node in job.preferred_nodes(cycle.pod) if self.engine.fits(cycle, node))
        node = next(fitting, None)
        return None if node is None else Placed(node, self.snapshot.rows.find(node) or 0, 0)

    def suits(self, cycle: Cycle, node: str) -> bool:
        """Whether a node is one that the pod may go to, as far as that does not depend on who is where."""
        mask = self._suited.get(cycle.pod_class)
        if mask is None:
            mask = self._suited[cycle.pod_class] = self.engine.statically_feasible(cycle)
        row = self.snapshot.rows.find(node)
        return row is not None and bool(mask[row])

    def statement(self) -> Statement:
        return Statement(self.snapshot, self.engine, self.now)

    def leaving(self) -> list[Occupant]:
        """Pods that are terminating."""
        generation = self.snapshot.room.changes.generation
        if self._leaving[0] != generation:
            self._leaving = (generation, terminating_pods(self.snapshot, self.now))
        return self._leaving[1]

    def leaving_for(self, job: Job) -> list[Occupant]:
        """Pods whose room a job may count on: those that are terminating, and those that its reservation awaits."""
        if job.reservation is None:
            return self.leaving()
        known = (self.snapshot.pods.known.get(uid) for uid in awaited_pods(job.reservation))
        return self.leaving() + [one for one in known if one is not None and not one.leaving]

    def endings(self) -> list[ExpectedEnd]:
        """Pods of which it is known when they end, as the session found them."""
        if self._endings is None:
            self._endings = expected_ends(self.snapshot, self.now)
        return self._endings

    def can_borrow(self, job: Job) -> bool:
        """Whether a job is over before somebody needs the room that is kept for them."""
        by = latest_end(job.pods, self.now) if job.reservation is None else None
        return by is not None and any(kept.until is not None and kept.until >= by for kept in self._kept)

    @contextmanager
    def borrowed(self, job: Job) -> Iterator[None]:
        """The room that a job may use in the meantime, free."""
        by = latest_end(job.pods, self.now)
        lent = [kept for kept in self._kept if by is not None and kept.until is not None and kept.until >= by]
        with self._without(lent):
            yield

    @contextmanager
    def _without(self, lent: Sequence[Kept]) -> Iterator[None]:
        for kept in lent:
            self.snapshot.forget(kept.pod)
        try:
            yield
        finally:
            for kept in lent:
                self.snapshot.assume(kept.pod, kept.node, at=self.now)

    @contextmanager
    def seats_only(self) -> Iterator[None]:
        """It is nobody's turn to take anything but what is held for it."""
        self.only_seats = True
        try:
            yield
        finally:
            self.only_seats = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """As if no room were kept for anybody."""
        with self._without(list(self._kept)):
            yield

    def accept(self, job: Job, statement: Statement) -> None:
        """A job, or a part of it that may start, starts."""
        steps = statement.commit()
        for step in steps:
            self.decide(job, step)
        job.mark_placed([pod for step in steps for pod in _placed(job, step)])

    def decide(self, job: Job, step: Decision) -> None:
        """A step for a job stands."""
        if isinstance(step, HoldSeats):
            self._hold(job, step)
            return
        self._decisions.append(step)
        if isinstance(step, Assign):
            self.roster.assume(step.cycle.pod)
            if self.shares.counts:
                self._charge(job, step.pod)
                if step.seat is not None:
                    self.shares.discharge(*self._held_by(step.seat))

    def keep(self, job: Job, statement: Statement, plugins: Iterable[str], until: float | None) -> None:
        """Room is kept for a job that these plugins refuse now."""
        when = "" if until is None else f" by {format_time(until)}"
        self._said[job.name] = said = f"waiting for room that others are leaving{when}"
        for step in statement.commit():
            self._decisions.append(step)
            if isinstance(step, Nominate):
                self._kept.append(Kept(step.pod, step.node, until))
                self._charge(job, step.pod)
                job.drop_pods([step.pod])
                message = f"waiting for room that others are leaving on node {step.node}{when}"
                self._decisions.append(RefusePod(step.pod, Code.UNSCHEDULABLE, message, frozenset(plugins)))
        self._refuse(job, Code.UNSCHEDULABLE, f"pod group {job.name} is {said}", plugins)
        job.pods = []  # of a gang, what it has beyond its minimum cannot start before that

    def refuse(
        self,
        job: Job,
        message: str,
        plugins: Iterable[str],
        code: Code = Code.UNSCHEDULABLE,
        nominated: Mapping[str, str] = NOBODY,
    ) -> None:
        """Everything left of a job has to wait; room is kept for pods that are nominated to a node, by UID."""
        self._said[job.name] = message
        for pod in job.pods if nominated else ():
            node = nominated.get(pod.metadata.uid)
            if node:
                self._decisions.append(Nominate(pod, node))
                self._keep_nominated(pod, node)
        self._refuse(job, code, message, plugins)
        job.pods = []

    def refuse_one(self, job: Job, pod: Pod, message: str, plugins: Iterable[str]) -> None:
        """One pod of a job has to wait, whatever becomes of the others."""
        self._said[job.name] = message
        self._decisions.append(RefusePod(pod, Code.UNSCHEDULABLE, message, frozenset(plugins)))
        job.drop_pods([pod])

    def tell(self, pod: Pod, reason: str, message: str) -> None:
        """Something about a pod that is no decision, and worth an event."""
        self._decisions.append(RecordEvent(pod, reason, message))

    def postpone(self) -> None:
        """Decide nothing about what is left: it takes its turn in another session."""
        left = {job.name for job in self.jobs}
        self.postponed = [one for job in self.jobs for one in ([job.reservation] if job.reservation else job.pods)]
        self._tried = [job for job in self._tried if job.name not in left]
        self.jobs = []

    def keep_for_nominated(self, priority: int) -> None:
        """Keep the room of pods nominated earlier that are at least this important."""
        while self._nominated and self._nominated[0][0] >= priority:
            _, pod = self._nominated.pop(0)
            self._keep_nominated(pod, pod.status.nominated_node_name or "")

    # ------------------------------------------------------------------------------------------------------------------

    def _refuse(self, job: Job, code: Code, message: str, plugins: Iterable[str]) -> None:
        whose = frozenset(plugins)
        if job.reservation is not None:
            self._decisions.append(RefuseReservation(job.reservation, message, whose, code))
        else:
            self._decisions += [RefusePod(pod, code, message, whose) for pod in job.pods]

    def _hold(self, job: Job, step: HoldSeats) -> None:
        """One Hold for all that a reservation gets in this session."""
        place = self._holds.setdefault(job, len(self._decisions))
        if place == len(self._decisions):
            self._decisions.append(step)
        else:
            before = self._decisions[place]
            assert isinstance(before, HoldSeats)
            placements = (*before.placements, *step.placements)
            self._decisions[place] = HoldSeats(step.reservation, placements, before.waiting or step.waiting)
        for pod in _placed(job, step):
            self._charge(job, pod)

    def _held_by(self, name: SeatName) -> tuple[str, Vector]:
        """The queue that a seat was charged to, and how much."""
        seat = self.snapshot.reservations.seat(name)
        return (
            (seat.queue or DEFAULT_QUEUE, requests_of(seat.reserved_pod)) if seat is not None else (DEFAULT_QUEUE, {})
        )

    def _by_importance(self, nominated: Iterable[Pod], pods: Sequence[Pod]) -> list[tuple[float, Pod]]:
        """Those that are not to be placed now, the most important first."""
        trying = {pod.metadata.uid for pod in pods}
        waiting = [pod for pod in nominated if pod.metadata.uid not in trying and pod.status.nominated_node_name]
        waiting.sort(key=key_of)
        return sorted(((self._importance(pod), pod) for pod in waiting), key=lambda one: -one[0])

    def _importance(self, pod: Pod) -> float:
        """Its priority; what is missing of a broken gang comes before everything else."""
        gang = self.roster.gang_of(pod)
        if gang is not None and is_gang_broken(gang, self.roster, self.snapshot):
            return inf
        return pod.spec.priority or 0

    def _keep_nominated(self, pod: Pod, node: str) -> None:
        if self.snapshot.node(node) is not None and pod.metadata.uid not in self.snapshot.pods.known:
            self.snapshot.assume(pod, node, at=self.now)
            self._kept.append(Kept(pod, node, None))

    def _state(self) -> tuple[int, int]:
        """What a refusal is good for: changes with everything that changes on nodes."""
        return self.snapshot.room.changes.generation, self.snapshot.nodes.changes.generation

    def _charge(self, job: Job, pod: Pod) -> None:
        if self.shares.counts:
            self.shares.charge(job.queue, self.roster.requests_of(pod))

    def _conclude(self) -> None:
        """The status of every gang that was looked at, where it changed."""
        for job in self._tried:
            if job.group is not None:
                status = pod_group_status(job, self._said.get(job.name), self.now)
                if status is not None:
                    self._decisions.append(SetPodGroupStatus(job.group, status))


def _placed(job: Job, step: Decision) -> list[Pod]:
    """The pods of a job that a step puts somewhere."""
    if isinstance(step, Assign):
        return [step.pod]
    if not isinstance(step, HoldSeats):
        return []
    meta = step.reservation.metadata
    held = {str(SeatName(meta.namespace or "", meta.name, one.task, one.index)) for one in step.placements}
    return [pod for pod in job.pods if pod.metadata.uid in held]


def _looking_closely(engine: Engine) -> frozenset[str]:
    """The plugins that may refuse one pod of a class and accept another."""
    filters = [one for one in engine.plugins if isinstance(one, FilterPlugin)]
    return frozenset(one.name for one in filters if one.reach is Reach.CLUSTER and not isinstance(one, ClassFilter))

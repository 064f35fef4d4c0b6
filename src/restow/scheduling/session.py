"""A session: one snapshot, the jobs that have something to place, and the actions that decide about them in turn.

Goes in: the snapshot as it is now (it is changed: what is decided is assumed), the engine, the PodGroup cache, the pods
to place and the pods that wait with a nominated node. Comes out: decisions in order, at least one for every pod that is
not `postponed`.

    Session.run          1  each action gets the backlog of jobs, and returns what it leaves to the next one
                         2  room that was kept for the session only is given back
                         3  jobs that no action decided about are refused: an earlier job of their queue waits
                         4  the status of every PodGroup is reported, if it changed

What the actions share has a home each: `nodes` finds the best node for a pod (`node_search`), `decisions` records what
is decided, `kept_room` is the room kept for nominated pods, `ends` says which pods are about to leave, `shares` what
each queue may still take, and `seat_memory` which seats have refused a class of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf

import msgspec

from restow.model.object_key import key_of
from restow.model.objects import Pod, Reservation
from restow.model.pods import scheduler_of
from restow.model.snapshot import Snapshot
from restow.scheduling.decisions import Decision
from restow.scheduling.engine import Engine
from restow.scheduling.expected_ends import ExpectedEnds
from restow.scheduling.jobs import Job, is_gang_broken, jobs_of_pods, jobs_of_reservations
from restow.scheduling.kept_room import KeptRoom
from restow.scheduling.node_search import NodeSearch
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.queue_shares import QueueShares
from restow.scheduling.seat_memory import SeatMemory
from restow.scheduling.session_decisions import SessionDecisions
from restow.scheduling.statement import Statement

NAMESPACE_SHARE = 50
"""In percent."""


class PendingWork(msgspec.Struct, frozen=True):
    """What a session decides about."""

    pods: Sequence[Pod]
    reservations: Sequence[Reservation] = ()
    """Reservations that have something left to place."""
    nominated: Iterable[Pod] = ()
    """Pods with a nominated node; those that are not among `pods` are not tried, and room is kept for them."""
    truncated_queues: Collection[str] = ()
    """Queues that have more jobs waiting than are here."""


class Backlog(msgspec.Struct, frozen=True):
    """What an action leaves to the next one."""

    jobs: Sequence[Job]
    """Jobs with pods to place about which no action has decided yet, in order."""
    seat_seekers: frozenset[Job] = frozenset()
    """Of these, the jobs that need more than the seats held for them: they take both when it is their turn."""
    postponed: Sequence[Job] = ()
    """Jobs that this session does not decide about, because a job that is not in it comes before them."""

    def of_unplaced(self, seat_seekers: Collection[Job] | None = None) -> Backlog:
        """The jobs that still have pods to place."""
        seekers = self.seat_seekers if seat_seekers is None else frozenset(seat_seekers)
        return Backlog([job for job in self.jobs if job.pods], seekers, self.postponed)


Action = Callable[["Session", Backlog], Backlog]


class Session:
    def __init__(
        self,
        snapshot: Snapshot,
        engine: Engine,
        pod_groups: PodGroupCache,
        work: PendingWork,
        *,
        now: float,
        namespace_share: int = NAMESPACE_SHARE,
        scheduler_names: frozenset[str] | None = None,
    ) -> None:
        """`namespace_share` is how much of what the cluster offers one namespace may hold by reservations, in percent
        of every resource. `scheduler_names` are the schedulers that this session acts for; without them, those that the
        pods name."""
        pods = work.pods
        self.snapshot = snapshot
        self.engine = engine
        self.pod_groups = pod_groups
        self.now = now
        self.namespace_share = namespace_share
        self.truncated_queues = work.truncated_queues
        self.scheduler_names = frozenset(map(scheduler_of, pods)) if scheduler_names is None else scheduler_names
        self.shares = QueueShares(pod_groups, snapshot)
        self.ends = ExpectedEnds(snapshot, now)
        self.seat_memory = SeatMemory()
        self.kept_room = KeptRoom(snapshot, now, _by_importance(work.nominated, pods, pod_groups, snapshot))
        self.nodes = NodeSearch(engine, snapshot, self.kept_room)
        self.decisions = SessionDecisions(snapshot, pod_groups, self.shares, self.kept_room, now)
        self._jobs = jobs_of_pods(pods, pod_groups, snapshot, engine.sort)
        if work.reservations:
            self._jobs += jobs_of_reservations(work.reservations, pod_groups, snapshot)
            self._jobs.sort(key=lambda job: job.order(engine.sort))
        self._postponed: Sequence[Job] = ()

    def run(self, actions: Iterable[Action]) -> list[Decision]:
        """Carry the actions out and close."""
        # 1. The actions, one after the other. Room kept on the way is given back whatever breaks (2).
        backlog = self.backlog()
        try:
            for action in actions:
                backlog = action(self, backlog)
        finally:
            self.kept_room.give_back()
        # 3. Without `backfill`, jobs behind a waiting one are left.
        for job in backlog.jobs:
            self.decisions.refuse_behind_waiting(job)
        # 4. The status of PodGroups, of all that were not postponed.
        self._postponed = backlog.postponed
        postponed = set(backlog.postponed)
        tried = [job for job in self._jobs if job not in postponed] if postponed else self._jobs
        self.decisions.report_pod_groups(tried)
        return self.decisions.made

    def backlog(self) -> Backlog:
        """All jobs of the session, in order: what the first action gets."""
        return Backlog(list(self._jobs))

    def statement(self) -> Statement:
        return Statement(self.snapshot, self.engine, self.now)

    @property
    def decided(self) -> Sequence[Decision]:
        """What was decided so far and stands, whatever broke afterwards."""
        return self.decisions.made

    @property
    def postponed(self) -> list[Pod | Reservation]:
        """What the session did not decide about, and is to be tried again."""
        return [item for job in self._postponed for item in ([job.reservation] if job.reservation else job.pods)]


def _by_importance(
    nominated: Iterable[Pod], pods: Sequence[Pod], pod_groups: PodGroupCache, snapshot: Snapshot
) -> list[tuple[float, Pod]]:
    """The nominated pods that are not to be placed now, the most important first."""
    trying = {pod.metadata.uid for pod in pods}
    waiting = [pod for pod in nominated if pod.metadata.uid not in trying and pod.status.nominated_node_name]
    waiting.sort(key=key_of)
    return sorted(((_importance(pod, pod_groups, snapshot), pod) for pod in waiting), key=lambda each: -each[0])


def _importance(pod: Pod, pod_groups: PodGroupCache, snapshot: Snapshot) -> float:
    """The pod's priority; what is missing of a broken gang comes before everything else."""
    gang = pod_groups.gang_of(pod)
    if gang is not None and is_gang_broken(gang, pod_groups, snapshot):
        return inf
    return pod.spec.priority or 0

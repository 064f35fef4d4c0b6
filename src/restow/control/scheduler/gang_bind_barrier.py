"""Musters: the members of a gang wait for each other before the first is bound, because no binding can be undone.

Goes in: the members of a gang of which nobody is on a node yet, as they are given theirs; when each is ready for its
Bind; and what stops one. Comes out, for all at once: go, or why nobody does.

    called ---> ready ---> (enough are ready, and a last look finds nothing in the way) ---> they go
       |          |
       +----------+--- stopped: the others go without it if they are enough, else none of them does

Who is beyond the minimum holds nobody up, and does not go before the others either. A gang that has members on nodes
needs no muster: it is completed, one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import msgspec

from restow.control.scheduler.binding_outcomes import Bound, Failed, Lost, BindingOutcome, Rejected
from restow.model.cluster import Snapshot
from restow.model.cluster.names import Key
from restow.model.objects import Pod, PodGroup
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import joined
from restow.scheduling.framework import unschedulable
from restow.scheduling.jobs import least_members, placed_members, suffices
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.cluster_events import GANG

Look = Callable[[Assign], BindingOutcome | None]
"""What keeps a pod from being bound now, if anything does."""


class GangBindBarrier:
    """One gang that is about to start."""

    def __init__(self, group: PodGroup) -> None:
        self.is_open = False
        """Whether its members go: from then on there is no way back."""
        self.stopped: BindingOutcome | None = None
        """Why nobody goes."""
        self._group = group
        self._called: dict[str, Assign] = {}
        self._ready: dict[str, asyncio.Future[BindingOutcome | None]] = {}
        self._leaving: set[str] = set()

    def call(self, assign: Assign) -> None:
        self._called[assign.pod.metadata.uid] = assign

    def ready(self, assign: Assign, look: Look) -> asyncio.Future[BindingOutcome | None]:
        """A member has come as far as it can alone: resolved to None when it goes, else to what stops it."""
        told = self._ready[assign.pod.metadata.uid] = asyncio.get_running_loop().create_future()
        if self.is_open or self.stopped is not None:
            told.set_result(self.stopped)
        else:
            self._open_if_enough(look)
        return told

    def stop(self, pod: Pod, outcome: BindingOutcome) -> bool:
        """One of them will not be bound now; whether that stops all others."""
        uid = pod.metadata.uid
        self._leaving.add(uid)
        self._ready.pop(uid, None)
        if self.is_open or self.stopped is not None or self._is_enough(self._called.keys() - self._leaving):
            return False
        self.stopped = _for_the_others(self._group, pod, outcome)
        for told in reversed(self._ready.values()):
            if not told.done():
                told.set_result(self.stopped)
        return True

    def dismiss(self, pod: Pod) -> bool:
        """It is over for a member, one way or the other; whether it was the last."""
        self._called.pop(pod.metadata.uid, None)
        self._ready.pop(pod.metadata.uid, None)
        self._leaving.discard(pod.metadata.uid)
        return not self._called

    def _open_if_enough(self, look: Look) -> None:
        while not self.is_open and self.stopped is None and self._is_enough(self._ready):
            hindered = self._first_hindered(look)
            if hindered is None:
                self.is_open = True
                for told in self._ready.values():
                    told.set_result(None)
            else:
                assign, obstacle = hindered
                self._ready[assign.pod.metadata.uid].set_result(obstacle)
                self.stop(assign.pod, obstacle)

    def _first_hindered(self, look: Look) -> tuple[Assign, BindingOutcome] | None:
        for uid in self._ready:
            obstacle = look(self._called[uid])
            if obstacle is not None and not isinstance(obstacle, Bound):
                return self._called[uid], obstacle
        return None

    def _is_enough(self, uids: Collection[str]) -> bool:
        if len(uids) < least_members(self._group):  # asked for each that comes: what follows looks at all of them
            return False
        return suffices(self._group, [self._called[uid].pod for uid in uids])


class GangBindBarriers:
    """Every gang that is about to start."""

    def __init__(self, roster: PodGroupCache, snapshot: Snapshot) -> None:
        self._roster = roster
        self._snapshot = snapshot
        self._musters: dict[Key, GangBindBarrier] = {}

    def call(self, assigned: Iterable[Assign]) -> None:
        """Pods were given nodes in one session: those of gangs that have nobody on a node yet wait for each other."""
        gangs: dict[Key, list[Assign]] = {}
        for assign in assigned:
            gang = self._roster.gang_of(assign.pod) if assign.pod.metadata.annotations else None
            if gang is not None:
                gangs.setdefault(gang, []).append(assign)
        for gang, members in gangs.items():
            group = self._roster.group(gang)
            if gang not in self._musters and group is not None and not self._has_others(gang, members):
                self._musters[gang] = GangBindBarrier(group)
            for assign in members if gang in self._musters else ():
                self._musters[gang].call(assign)

    def of(self, pod: Pod) -> GangBindBarrier | None:
        """The muster that a pod takes part in."""
        if not self._musters:
            return None
        gang = self._roster.gang_of(pod)
        return self._musters.get(gang) if gang is not None else None

    def is_pending(self, gang: Key) -> bool:
        """Whether nobody of a gang is bound yet, although some have nodes."""
        muster = self._musters.get(gang)
        return muster is not None and not muster.is_open

    def dismiss(self, pod: Pod) -> None:
        """It is over for a pod, one way or the other."""
        gang = self._roster.gang_of(pod) if self._musters else None
        if gang is not None and gang in self._musters and self._musters[gang].dismiss(pod):
            del self._musters[gang]

    def _has_others(self, gang: Key, members: Iterable[Assign]) -> bool:
        """Whether somebody was on a node before these."""
        new = {assign.pod.metadata.uid for assign in members}
        placed = placed_members(self._roster.members(gang), self._snapshot)
        return any(pod.metadata.uid not in new for pod in placed)


def _for_the_others(group: PodGroup, culprit: Pod, outcome: BindingOutcome) -> BindingOutcome:
    """What the others of a gang are told when one of them will not be bound."""
    meta = group.metadata
    name = f"pod group {meta.namespace}/{meta.name} does not start: pod {culprit.metadata.name}"
    if isinstance(outcome, Failed):
        return Failed(f"{name}: {outcome.message}", at_once=outcome.at_once)
    if isinstance(outcome, Rejected):
        message = f"{name}: {joined(outcome.verdict.reasons)}"
        return Rejected(msgspec.structs.replace(unschedulable(message), plugin=outcome.verdict.plugin))
    assert isinstance(outcome, Lost), "a pod that is bound stops nobody"
    return Rejected(msgspec.structs.replace(unschedulable(f"{name} is gone"), plugin=GANG))

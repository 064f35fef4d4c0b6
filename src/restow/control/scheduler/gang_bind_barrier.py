"""The bind barrier of a gang: its first members wait for each other before any of them is bound, because a Binding
cannot be undone.

Goes in: the members of a gang with no pod on a node yet, as they are given nodes; which of them are ready for their
Bind; and which fail before. Comes out, for all of them at once: go, or why the gang does not start.

    assigned ---> ready ---> (enough are ready, and a last check finds nothing wrong) ---> the barrier opens: they go
       |            |
       +------------+--- failed: the others go without the member if they are enough, else none of them does

A member beyond minMember holds up no other, and does not go before the others either. A gang that has pods on nodes
needs no barrier: the missing ones are bound one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import msgspec

from restow.control.scheduler.binding_outcomes import BindingOutcome, Bound, Failed, Lost, Rejected
from restow.model.object_key import Key
from restow.model.objects import Pod, PodGroup
from restow.model.snapshot import Snapshot
from restow.scheduling.cluster_events import GANG
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import join_reasons
from restow.scheduling.framework import unschedulable
from restow.scheduling.jobs import is_gang_satisfied, min_members, placed_members
from restow.scheduling.pod_group_cache import PodGroupCache

LastCheck = Callable[[Assign], BindingOutcome | None]
"""Gives what keeps a pod from being bound now, or None."""


class GangBindBarrier:
    """The barrier of one gang that is about to start."""

    def __init__(self, group: PodGroup) -> None:
        self.is_open = False
        """Whether the members go. There is no way back from this."""
        self.failure: BindingOutcome | None = None
        """Why the gang does not start, for each of its members."""
        self._group = group
        self._assigned: dict[str, Assign] = {}
        self._ready: dict[str, asyncio.Future[BindingOutcome | None]] = {}
        self._failed: set[str] = set()

    def add_member(self, assign: Assign) -> None:
        self._assigned[assign.pod.metadata.uid] = assign

    def member_ready(self, assign: Assign, last_check: LastCheck) -> asyncio.Future[BindingOutcome | None]:
        """A member has come as far as it can alone. The future resolves to None when the member goes, else to the
        reason why it does not."""
        result = self._ready[assign.pod.metadata.uid] = asyncio.get_running_loop().create_future()
        if self.is_open or self.failure is not None:
            result.set_result(self.failure)
        else:
            self._open_if_enough(last_check)
        return result

    def member_failed(self, pod: Pod, outcome: BindingOutcome) -> bool:
        """A member will not be bound now; returns whether that keeps the whole gang from starting."""
        uid = pod.metadata.uid
        self._failed.add(uid)
        self._ready.pop(uid, None)
        if self.is_open or self.failure is not None or self._is_enough(self._assigned.keys() - self._failed):
            return False
        self.failure = _failure_of_others(self._group, pod, outcome)
        for result in reversed(self._ready.values()):
            if not result.done():
                result.set_result(self.failure)
        return True

    def remove_member(self, pod: Pod) -> bool:
        """The binding cycle of a member has ended; returns whether it was the last one."""
        self._assigned.pop(pod.metadata.uid, None)
        self._ready.pop(pod.metadata.uid, None)
        self._failed.discard(pod.metadata.uid)
        return not self._assigned

    def _open_if_enough(self, last_check: LastCheck) -> None:
        # Everything in this function happens without an await: between the last check of the first member and the
        # opening, no event can change what was checked.
        while not self.is_open and self.failure is None and self._is_enough(self._ready):
            obstructed = self._first_obstructed(last_check)
            if obstructed is None:
                self.is_open = True
                for result in self._ready.values():
                    result.set_result(None)
            else:
                assign, obstacle = obstructed
                self._ready[assign.pod.metadata.uid].set_result(obstacle)
                self.member_failed(assign.pod, obstacle)

    def _first_obstructed(self, last_check: LastCheck) -> tuple[Assign, BindingOutcome] | None:
        for uid in self._ready:
            obstacle = last_check(self._assigned[uid])
            if obstacle is not None and not isinstance(obstacle, Bound):
                return self._assigned[uid], obstacle
        return None

    def _is_enough(self, uids: Collection[str]) -> bool:
        if len(uids) < min_members(self._group):
            return False  # the cheap question first, because `_is_enough` is asked for every member that gets ready
        return is_gang_satisfied(self._group, [self._assigned[uid].pod for uid in uids])


class GangBindBarriers:
    """The barriers of all gangs that are about to start."""

    def __init__(self, pod_groups: PodGroupCache, snapshot: Snapshot) -> None:
        self._pod_groups = pod_groups
        self._snapshot = snapshot
        self._barriers: dict[Key, GangBindBarrier] = {}

    def add_members(self, assigned: Iterable[Assign]) -> None:
        """One session has given nodes to these pods. Those of gangs with no other pod on a node wait for each other."""
        gangs: dict[Key, list[Assign]] = {}
        for assign in assigned:
            gang = self._pod_groups.gang_of(assign.pod) if assign.pod.metadata.annotations else None
            if gang is not None:
                gangs.setdefault(gang, []).append(assign)
        for gang, members in gangs.items():
            group = self._pod_groups.group(gang)
            if gang not in self._barriers and group is not None and not self._has_other_placed_pods(gang, members):
                self._barriers[gang] = GangBindBarrier(group)
            for assign in members if gang in self._barriers else ():
                self._barriers[gang].add_member(assign)

    def barrier_of(self, pod: Pod) -> GangBindBarrier | None:
        """The barrier that a pod waits at, if any."""
        if not self._barriers:
            return None
        gang = self._pod_groups.gang_of(pod)
        return self._barriers.get(gang) if gang is not None else None

    def is_pending(self, gang: Key) -> bool:
        """Whether pods of a gang have nodes and none of them is bound, so that the gang may still fail to start."""
        barrier = self._barriers.get(gang)
        return barrier is not None and not barrier.is_open

    def remove_member(self, pod: Pod) -> None:
        """The binding cycle of a pod has ended."""
        gang = self._pod_groups.gang_of(pod) if self._barriers else None
        if gang is not None and gang in self._barriers and self._barriers[gang].remove_member(pod):
            del self._barriers[gang]

    def _has_other_placed_pods(self, gang: Key, members: Iterable[Assign]) -> bool:
        """Whether pods of the gang were on nodes before these."""
        new = {assign.pod.metadata.uid for assign in members}
        placed = placed_members(self._pod_groups.members(gang), self._snapshot)
        return any(pod.metadata.uid not in new for pod in placed)


def _failure_of_others(group: PodGroup, failed: Pod, outcome: BindingOutcome) -> BindingOutcome:
    """The outcome for the other members of a gang when one of them will not be bound."""
    meta = group.metadata
    prefix = f"pod group {meta.namespace}/{meta.name} does not start: pod {failed.metadata.name}"
    if isinstance(outcome, Failed):
        return Failed(f"{prefix}: {outcome.message}", retry_at_once=outcome.retry_at_once)
    if isinstance(outcome, Rejected):
        message = f"{prefix}: {join_reasons(outcome.verdict.reasons)}"
        return Rejected(msgspec.structs.replace(unschedulable(message), plugin=outcome.verdict.plugin))
    assert isinstance(outcome, Lost), "a bound pod keeps no gang from starting"
    return Rejected(msgspec.structs.replace(unschedulable(f"{prefix} is gone"), plugin=GANG))

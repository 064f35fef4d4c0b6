"""Broken gangs: some of their pods are bound and too few, because a Binding failed half-way or pods were deleted.

Goes in: pods of gangs after their binding cycle has failed. Comes out: the broken gangs; their missing pods go before
all others. A Binding cannot be undone and users' pods are never deleted, so a gang that was bound in part is completed.
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.pod_group_status_writer import PodGroupStatusWriter
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.object_key import Key, key_of
from restow.scheduling.decisions import Assign
from restow.scheduling.jobs import is_gang_broken
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class BrokenGangs:
    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nominator: Nominator,
        barriers: GangBindBarriers,
        pod_group_status: PodGroupStatusWriter,
    ) -> None:
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._queue = queue
        self._nominator = nominator
        self._barriers = barriers
        self._pod_group_status = pod_group_status
        self._gangs: set[Key] = set()

    def __iter__(self) -> Iterator[Key]:
        """The broken gangs, by name."""
        return iter(sorted(self._gangs))

    def find_all(self) -> None:
        """Find those that the leader before left behind; once everything that exists was seen."""
        self._gangs = {gang for gang in map(key_of, self._pod_groups.groups()) if self._is_broken(gang)}

    def drop_completed(self) -> None:
        self._gangs = {gang for gang in self._gangs if self._is_broken(gang)}

    def pod_not_bound(self, assign: Assign, reason: str, *, retry_at_once: bool = False) -> None:
        """The binding cycle of a pod has failed. If that breaks its gang, the pod is tried again at once, or keeps its
        room while it backs off."""
        pod = assign.pod
        gang = self._pod_groups.gang_of(pod)
        group = self._pod_groups.group(gang) if gang is not None else None
        if gang is None or group is None or not self._is_broken(gang):
            return
        self._gangs.add(gang)
        self._pod_group_status.report_broken_gang(group, pod, reason)
        if retry_at_once:
            self._queue.activate([pod.metadata.uid], monotonic_time())
        elif self._queue.state_of(pod.metadata.uid) is not None:
            self._nominator.nominate_to(pod, assign.node)

    def _is_broken(self, gang: Key) -> bool:
        # While its barrier is closed, none of its pods is bound: assumed ones do not count yet.
        return not self._barriers.is_pending(gang) and is_gang_broken(gang, self._pod_groups, self._snapshot)

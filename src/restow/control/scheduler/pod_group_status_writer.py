"""The status writer of PodGroups: phase, conditions and counts, and Events about gangs.

Goes in: the status of a gang as a session decided it, and changes of its pods. Comes out: patches of podgroups/status
where they change something, each guarded by the resourceVersion that it was computed from; and an Event for every
condition that has become true or says something else (Scheduled, Unschedulable).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from restow.client.event_recorder import about
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.control.scheduler.status_write_queue import StatusWriteQueue
from restow.model.kinds import POD_GROUP
from restow.model.object_key import Key, key_of
from restow.model.objects import ConditionStatus, Pod, PodGroup, PodGroupPhase, PodGroupStatus
from restow.model.pods import is_pending
from restow.scheduling.jobs import jobs_of_pods, min_members, too_few_pods_message
from restow.scheduling.pod_group_status import SCHEDULED, pod_group_status

_STATUS_FIELDS = ("phase", "conditions", "running", "succeeded", "failed")
"""All fields of a PodGroup's status: a merge patch has to name those that it removes."""


class PodGroupStatusWriter:
    def __init__(
        self,
        dependencies: SchedulerDependencies,
        cache: SchedulerCache,
        barriers: GangBindBarriers,
        writes: StatusWriteQueue,
    ) -> None:
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._recorder = dependencies.recorder
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._barriers = barriers
        self._writes = writes
        self._decided: dict[Key, PodGroupStatus] = {}
        """What sessions decided and is not written yet."""

    def set_status(self, group: PodGroup, status: PodGroupStatus) -> None:
        """Write the status that a session decided. Not Running, as long as the gang may fail to start although its pods
        were given nodes: once it has started, `write` finds out. What was decided before does not hold any more."""
        key = key_of(group)
        if status.phase == PodGroupPhase.RUNNING and self._barriers.is_pending(key):
            self._decided.pop(key, None)
        else:
            self._decided[key] = status
        self._writes.add(self, key)

    def member_changed(self, pod: Pod) -> None:
        """A pod of a gang has changed, and with it perhaps how many of its pods run."""
        key = self._pod_groups.gang_of(pod)
        if key is not None:
            self._writes.add(self, key)

    def report_broken_gang(self, group: PodGroup, pod: Pod, reason: str) -> None:
        """A pod of a gang was not bound although others were."""
        message = f"pod {pod.metadata.name} was not bound: {reason}; the gang is completed before anything else"
        self._recorder.record(about(POD_GROUP, group.metadata), "Completing", message, type="Warning")

    # --- called by the write queue ------------------------------------------------------------------------------------

    async def write(self, key: str | Key) -> None:
        assert isinstance(key, tuple), "PodGroups are known by namespace and name"
        group = self._pod_groups.group(key)
        if group is None:
            self._decided.pop(key, None)
            return
        decided = self._decided.get(key)
        members = self._pod_groups.members(key)
        wanted = _with_counts(group, decided or self._undecided_status(group, members), members)
        if wanted != group.status:
            await self._client.patch(
                POD_GROUP,
                group.metadata.name,
                {"status": dict.fromkeys(_STATUS_FIELDS) | msgspec.to_builtins(wanted)},
                group.metadata.namespace,
                subresource="status",
                resource_version=group.metadata.resource_version,
            )
            self._announce(group, wanted)
        if self._decided.get(key) is decided:  # else a session has decided again during the write
            self._decided.pop(key, None)

    def drop(self, key: str | Key) -> None:
        assert isinstance(key, tuple), "PodGroups are known by namespace and name"
        self._decided.pop(key, None)

    def _announce(self, group: PodGroup, status: PodGroupStatus) -> None:
        """Record an Event for every condition that is true and was not, or had another message."""
        before = {(condition.type, condition.status, condition.message) for condition in group.status.conditions or ()}
        for condition in status.conditions or ():
            is_new = (condition.type, condition.status, condition.message) not in before
            if condition.status == ConditionStatus.TRUE and is_new:
                self._recorder.record(
                    about(POD_GROUP, group.metadata),
                    condition.type or "",
                    condition.message or "",
                    type="Normal" if condition.type == SCHEDULED else "Warning",
                )

    def _undecided_status(self, group: PodGroup, members: list[Pod]) -> PodGroupStatus:
        """The status of a gang that no session decided about. After a change of leader, the last pods of the gang may
        have been placed without its status saying so; or the spec was edited when none of its pods was pending."""
        key = key_of(group)
        has_started = group.status.phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)
        if members and not has_started and not self._barriers.is_pending(key):
            [job] = jobs_of_pods(members, self._pod_groups, self._snapshot)
            if job.is_whole or not any(map(is_pending, members)):
                needed, existing = job.min_available, job.existing
                refusal = too_few_pods_message(job.name, needed, existing) if existing < needed else None
                return pod_group_status(job, refusal, self._clock.now()) or group.status
        return group.status


def _with_counts(group: PodGroup, status: PodGroupStatus, members: list[Pod]) -> PodGroupStatus:
    """The status with the numbers of pods that run and have ended. A gang is completed when all its pods have ended and
    enough of them succeeded."""
    phases = [pod.status.phase for pod in members]
    running, succeeded, failed = (phases.count(phase) for phase in ("Running", "Succeeded", "Failed"))
    phase = status.phase
    if succeeded >= min_members(group) and succeeded + failed == len(phases):
        phase = PodGroupPhase.COMPLETED
    return replace(status, phase=phase, running=running or None, succeeded=succeeded or None, failed=failed or None)

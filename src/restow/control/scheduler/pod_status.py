"""What people are told: conditions, nominated nodes, Events, and the status of gangs.

Goes in: how attempts ended. Comes out, in the background and never in the way of the work: Events, and writes to
pods/status and podgroups/status, only where they change something. Each write is guarded by the version it was worked
out from, so a pod that was bound meanwhile is never called unschedulable; a refused write is worked out again.

    PodScheduled=False   reason Unschedulable, SchedulerError or SchedulingGated, with the counted sentence; True is the
                         API server's
    nominatedNodeName    set where room is being left for the pod or volumes are being bound; cleared by a refusal
    PodGroup             phase and conditions as the session decided, and how many of its pods run or have ended; what
                         a condition says when it begins to hold is an Event, too: Scheduled or Unschedulable
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from restow.client.events import EventRecorder, about
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.binding_outcomes import ConsumedSeat
from restow.model.cluster.names import Key, key_of
from restow.model.kinds import POD, POD_GROUP
from restow.model.objects import (
    Condition,
    ConditionStatus,
    Document,
    Pod,
    PodGroup,
    PodGroupPhase,
    PodGroupStatus,
)
from restow.model.pods import is_pending
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.ports import STRATEGIC_PATCH, ApiError, Clock, Forbidden, Invalid, NotFound
from restow.scheduling.conditions import SCHEDULED as GROUP_SCHEDULED
from restow.scheduling.conditions import group_status
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import joined
from restow.scheduling.framework import Verdict
from restow.scheduling.jobs import jobs_of, least_members

log = logging.getLogger(__name__)

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE, SCHEDULER_ERROR, SCHEDULING_GATED = "Unschedulable", "SchedulerError", "SchedulingGated"
_STATUS = ("phase", "conditions", "running", "succeeded", "failed")
"""All that a PodGroup's status says: what is to be said no more has to be named, too."""


class _Wish(msgspec.Struct, frozen=True):
    """What a pod's status is to say; None where it is to stay."""

    pod: Pod
    nominated: str | None = None
    """The node, or "" for none."""
    reason: str | None = None
    message: str = ""


class PodStatusWriter:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        feed: EventHandlers,
    ) -> None:
        self.is_pending: Callable[[Key], bool] = lambda gang: False
        """Whether it may still turn out that a gang does not start, although its pods have been given nodes."""
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._snapshot = feed.snapshot
        self._roster = feed.roster
        self._latest = feed.latest
        self._queue: WorkQueue[str | Key] = WorkQueue(base=0.1, cap=10.0)
        self._pods: dict[str, _Wish] = {}
        self._groups: dict[Key, PodGroupStatus] = {}

    # --- pods ---------------------------------------------------------------------------------------------------------

    def scheduled(self, assign: Assign, taken: ConsumedSeat | None) -> None:
        meta = assign.pod.metadata
        self._pods.pop(meta.uid, None)
        message = f"Successfully assigned {meta.namespace}/{meta.name} to {assign.node}"
        if taken is not None:
            message += f", in the seat {taken.seat} that was reserved"
        self._recorder.record(about(POD, meta), "Scheduled", message)

    def refused(self, pod: Pod, message: str, *, nominated: str = "", reason: str = UNSCHEDULABLE) -> None:
        """The pod has no node now. Who reads conditions reads the same as who reads Events."""
        self._recorder.record(about(POD, pod.metadata), "FailedScheduling", message, type="Warning")
        self._want(_Wish(pod, nominated, reason, message))

    def gated(self, pod: Pod, verdict: Verdict) -> None:
        """A plugin does not let the pod into the queue. Of gates that it has itself, the API server tells."""
        if not pod.spec.scheduling_gates:
            self.refused(pod, f"{verdict.plugin}: {joined(verdict.reasons)}", reason=SCHEDULING_GATED)

    def tell(self, pod: Pod, reason: str, message: str) -> None:
        """Something else that people should know of a pod."""
        self._recorder.record(about(POD, pod.metadata), reason, message, type="Warning")

    def expects(self, pod: Pod, node: str) -> None:
        """The pod will be on this node, but it takes a while."""
        self._want(_Wish(pod, node))

    def _want(self, wish: _Wish) -> None:
        uid = wish.pod.metadata.uid
        if _changes(wish, self._latest(wish.pod) or wish.pod, self._clock.now()) or uid in self._pods:
            self._pods[uid] = wish
            self._queue.add(uid)

    # --- gangs --------------------------------------------------------------------------------------------------------

    def group(self, group: PodGroup, status: PodGroupStatus) -> None:
        """How a gang fares. That it runs is not said before it is certain, and then found out; what was to be said
        before is no longer so."""
        key = key_of(group)
        if status.phase == PodGroupPhase.RUNNING and self.is_pending(key):
            self._groups.pop(key, None)
        else:
            self._groups[key] = status
        self._queue.add(key)

    def member(self, pod: Pod) -> None:
        """A pod of a gang changed: its counts may have."""
        key = self._roster.gang_of(pod)
        if key is not None:
            self._queue.add(key)

    def broken(self, group: PodGroup, pod: Pod, why: str) -> None:
        """A pod of a gang could not be bound although others were."""
        message = f"pod {pod.metadata.name} was not bound: {why}; the gang is completed before anything else"
        self._recorder.record(about(POD_GROUP, group.metadata), "Completing", message, type="Warning")

    # --- writing ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled; any number may run at once."""
        while True:
            async with self._queue.next() as key:
                await self._write_or_retry(key)

    async def _write_or_retry(self, key: str | Key) -> None:
        try:
            await (self._write_pod(key) if isinstance(key, str) else self._write_group(key))
        except NotFound:
            self._drop(key)
        except (Invalid, Forbidden) as error:
            log.error("status not written", extra={"about": key, "err": str(error)})
            self._drop(key)
        except (ApiError, WireError):
            self._queue.retry(key)
            return
        self._queue.forget(key)

    def _drop(self, key: str | Key) -> None:
        if isinstance(key, str):
            self._pods.pop(key, None)
        else:
            self._groups.pop(key, None)

    async def _write_pod(self, uid: str) -> None:
        wish = self._pods.get(uid)
        pod = self._latest(wish.pod) if wish is not None else None
        if wish is None or pod is None or pod.spec.node_name:
            self._pods.pop(uid, None)
            return
        changes = _changes(wish, pod, self._clock.now())
        if changes:
            meta = pod.metadata
            await self._client.patch(
                POD,
                meta.name,
                {"metadata": {"uid": meta.uid}, "status": changes},
                meta.namespace,
                type=STRATEGIC_PATCH,
                subresource="status",
                resource_version=meta.resource_version,
            )
        if self._pods.get(uid) is wish:
            del self._pods[uid]

    async def _write_group(self, key: Key) -> None:
        group = self._roster.group(key)
        if group is None:
            self._groups.pop(key, None)
            return
        decided = self._groups.get(key)
        members = self._roster.members(key)
        wanted = _counted(group, decided or self._found(group, members), members)
        if wanted != group.status:
            await self._client.patch(
                POD_GROUP,
                group.metadata.name,
                {"status": dict.fromkeys(_STATUS) | msgspec.to_builtins(wanted)},
                group.metadata.namespace,
                subresource="status",
                resource_version=group.metadata.resource_version,
            )
            self._announce(group, wanted)
        if self._groups.get(key) is decided:
            self._groups.pop(key, None)

    def _announce(self, group: PodGroup, status: PodGroupStatus) -> None:
        """An Event for every condition that holds now and did not, or says something else: what it says."""
        before = {(one.type, one.status, one.message) for one in group.status.conditions or ()}
        for one in status.conditions or ():
            if one.status == ConditionStatus.TRUE and (one.type, one.status, one.message) not in before:
                reference, what = about(POD_GROUP, group.metadata), one.type or ""
                good = one.type == GROUP_SCHEDULED
                self._recorder.record(reference, what, one.message or "", type="Normal" if good else "Warning")

    def _found(self, group: PodGroup, members: list[Pod]) -> PodGroupStatus:
        """The status of a gang that nobody decides about: whoever placed the last of it may not have come to say so, or
        it was changed when nobody of it waited any more."""
        key = key_of(group)
        over = group.status.phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)
        if members and not over and not self.is_pending(key):
            [job] = jobs_of(members, self._roster, self._snapshot)
            if job.is_whole or not any(map(is_pending, members)):
                why = job.shortfall if job.known < job.least else None
                return group_status(job, why, self._clock.now()) or group.status
        return group.status


def _changes(wish: _Wish, pod: Pod, now: float) -> Document:
    """The part of a pod's status that is to be written; nothing if it says so already."""
    changes: Document = {}
    if wish.nominated is not None and wish.nominated != (pod.status.nominated_node_name or ""):
        changes["nominatedNodeName"] = wish.nominated or None
    if wish.reason is not None:
        old = next((one for one in pod.status.conditions or () if one.type == POD_SCHEDULED), Condition())
        if (old.status, old.reason, old.message) != ("False", wish.reason, wish.message):
            changes["conditions"] = [_condition(wish, pod, old, now)]
    return changes


def _condition(wish: _Wish, pod: Pod, old: Condition, now: float) -> Document:
    since = old.last_transition_time if old.status == "False" else None
    made = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": wish.reason,
        "message": wish.message,
        "lastTransitionTime": since or format_time(now),
    }
    return made | ({"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {})


def _counted(group: PodGroup, status: PodGroupStatus, members: list[Pod]) -> PodGroupStatus:
    """The status with how many pods run and have ended; a gang whose pods have all succeeded is completed."""
    phases = [pod.status.phase for pod in members]
    running, succeeded, failed = (phases.count(phase) for phase in ("Running", "Succeeded", "Failed"))
    phase = status.phase
    if succeeded >= least_members(group) and succeeded + failed == len(phases):
        phase = PodGroupPhase.COMPLETED
    return replace(status, phase=phase, running=running or None, succeeded=succeeded or None, failed=failed or None)

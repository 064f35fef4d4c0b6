"""The status writer of pods: PodScheduled conditions, nominated nodes, and Events about pods.

Goes in: how scheduling attempts ended. Comes out: Events, and patches of pods/status where they change something. Each
patch is guarded by the resourceVersion that it was computed from, so a pod that was bound meanwhile is never called
unschedulable; after a conflict it is computed again.

    PodScheduled=False   with reason Unschedulable, SchedulerError or SchedulingGated and the counted sentence. The API
                         server itself sets True with the Binding.
    nominatedNodeName    set while room is kept for the pod or its volumes are being bound; cleared by a refusal
"""

from __future__ import annotations

import msgspec

from restow.client.event_recorder import about
from restow.control.scheduler.binding_outcomes import ConsumedSeat
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.control.scheduler.status_write_queue import StatusWriteQueue
from restow.model.kinds import POD
from restow.model.object_key import Key
from restow.model.objects import Condition, Document, Pod
from restow.model.times import format_time
from restow.ports import STRATEGIC_PATCH
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import join_reasons
from restow.scheduling.framework import Verdict

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE, SCHEDULER_ERROR, SCHEDULING_GATED = "Unschedulable", "SchedulerError", "SchedulingGated"


class _WantedStatus(msgspec.Struct, frozen=True):
    """What the status of a pod is to say; None where it is to stay as it is."""

    pod: Pod
    nominated: str | None = None
    """The nominated node; "" removes it."""
    reason: str | None = None
    message: str = ""


class PodStatusWriter:
    def __init__(self, dependencies: SchedulerDependencies, cache: SchedulerCache, writes: StatusWriteQueue) -> None:
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._recorder = dependencies.recorder
        self._latest = cache.latest
        self._writes = writes
        self._wanted: dict[str, _WantedStatus] = {}

    def report_scheduled(self, assign: Assign, consumed_seat: ConsumedSeat | None) -> None:
        """A pod was bound."""
        meta = assign.pod.metadata
        self._wanted.pop(meta.uid, None)
        message = f"Successfully assigned {meta.namespace}/{meta.name} to {assign.node}"
        if consumed_seat is not None:
            message += f", in reserved seat {consumed_seat.seat}"
        self._recorder.record(about(POD, meta), "Scheduled", message)

    def report_unschedulable(self, pod: Pod, message: str, *, nominated: str = "", reason: str = UNSCHEDULABLE) -> None:
        """An attempt has ended without a node. Condition and Event say the same."""
        self._recorder.record(about(POD, pod.metadata), "FailedScheduling", message, type="Warning")
        self._want(_WantedStatus(pod, nominated, reason, message))

    def report_gated(self, pod: Pod, verdict: Verdict) -> None:
        """A PreEnqueue plugin keeps the pod out of the queue. Of spec.schedulingGates, the API server itself tells."""
        if not pod.spec.scheduling_gates:
            message = f"{verdict.plugin}: {join_reasons(verdict.reasons)}"
            self.report_unschedulable(pod, message, reason=SCHEDULING_GATED)

    def record_warning(self, pod: Pod, reason: str, message: str) -> None:
        """An Event about a pod that changes nothing in its status."""
        self._recorder.record(about(POD, pod.metadata), reason, message, type="Warning")

    def report_slow_binding(self, pod: Pod, node: str) -> None:
        """The pod will be bound to this node, but not soon: nominatedNodeName tells autoscalers, as in
        kube-scheduler."""
        self._want(_WantedStatus(pod, node))

    def _want(self, wanted: _WantedStatus) -> None:
        uid = wanted.pod.metadata.uid
        if _changes(wanted, self._latest(wanted.pod) or wanted.pod, self._clock.now()) or uid in self._wanted:
            self._wanted[uid] = wanted
            self._writes.add(self, uid)

    # --- called by the write queue ------------------------------------------------------------------------------------

    async def write(self, key: str | Key) -> None:
        assert isinstance(key, str), "pods are known by UID"
        wanted = self._wanted.get(key)
        pod = self._latest(wanted.pod) if wanted is not None else None
        if wanted is None or pod is None or pod.spec.node_name:
            self._wanted.pop(key, None)
            return
        changes = _changes(wanted, pod, self._clock.now())
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
        if self._wanted.get(key) is wanted:  # else another attempt has ended during the write
            del self._wanted[key]

    def drop(self, key: str | Key) -> None:
        assert isinstance(key, str), "pods are known by UID"
        self._wanted.pop(key, None)


def _changes(wanted: _WantedStatus, pod: Pod, now: float) -> Document:
    """The part of a pod's status that differs from what it is to say."""
    changes: Document = {}
    if wanted.nominated is not None and wanted.nominated != (pod.status.nominated_node_name or ""):
        changes["nominatedNodeName"] = wanted.nominated or None
    if wanted.reason is not None:
        conditions = pod.status.conditions or ()
        old = next((condition for condition in conditions if condition.type == POD_SCHEDULED), Condition())
        if (old.status, old.reason, old.message) != ("False", wanted.reason, wanted.message):
            changes["conditions"] = [_condition(wanted, pod, old, now)]
    return changes


def _condition(wanted: _WantedStatus, pod: Pod, old: Condition, now: float) -> Document:
    since = old.last_transition_time if old.status == "False" else None
    condition = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since or format_time(now),
    }
    return condition | ({"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {})

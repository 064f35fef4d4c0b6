"""The pod garbage collector: removes pods of nodes that are gone, after a delay, and deleted pods without a node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod
from restow.model.pods import find_condition, is_finished
from restow.model.times import format_time, parse_time
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.rule import Rule
from restow.sim.world.settings import Settings
from restow.sim.world.step import NOTHING, Delete, Patch, Step, Write
from restow.sim.world.view import View


class PodGarbageCollector(Rule):
    kind = POD
    also = (NODE,)

    def __init__(self, settings: Settings) -> None:
        self._notice = settings.orphan_notice

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if change.type != "DELETED":
            return ()
        return [key_of(pod) for pod in view.pods_on(change.object.metadata.name)]

    def decide(self, key: Key, view: View) -> Step:
        pod = view.get(POD, key)
        if pod is None:
            return NOTHING
        if pod.spec.node_name:
            return NOTHING if view.node(pod.spec.node_name) else self._lost(pod, view.now)
        deleting = pod.metadata.deletion_timestamp and not pod.metadata.finalizers
        return Step((Delete.of(POD, pod, grace=0),)) if deleting else NOTHING

    def _lost(self, pod: Pod, now: float) -> Step:
        """First set DisruptionTarget, and remove the pod after the delay: the node might come back."""
        target = find_condition(pod.status.conditions, "DisruptionTarget")
        if target is None or target.status != "True":
            return Step((_disrupted(pod, now),))
        wait = parse_time(target.last_transition_time or "1970-01-01T00:00:00Z") + self._notice - now
        if wait > 0:
            return Step(again=wait)
        end: tuple[Write, ...] = () if is_finished(pod) else (_failed(pod),)
        return Step((*end, Delete.of(POD, pod, grace=0)))


def _disrupted(pod: Pod, now: float) -> Patch:
    entry = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": format_time(now),
    }
    return _status(pod, {"conditions": [entry]})


def _failed(pod: Pod) -> Patch:
    return _status(pod, {"phase": "Failed"})


def _status(pod: Pod, status: dict[str, Any]) -> Patch:
    meta = pod.metadata
    return Patch(
        kind=POD,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid}, "status": status},
        subresource="status",
        type=STRATEGIC_PATCH,
    )

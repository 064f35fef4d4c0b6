"""NoExecute taints: pods that do not tolerate one are deleted, at once or when their toleration runs out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Taint
from restow.model.pods import is_finished
from restow.model.taints import NO_EXECUTE, tolerates_taint
from restow.model.times import format_time, parse_time
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.rule import Rule
from restow.sim.world.step import NOTHING, Delete, Patch, Step
from restow.sim.world.view import View


class TaintEviction(Rule):
    kind = POD
    also = (NODE,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if not _no_execute(change.object.spec.taints):
            return ()
        return [key_of(pod) for pod in view.pods_on(change.object.metadata.name)]

    def decide(self, key: Key, view: View) -> Step:
        pod = view.get(POD, key)
        node = view.node(pod.spec.node_name) if pod else None
        if pod is None or node is None or view.is_leaving(pod) or is_finished(pod):
            return NOTHING
        wait = min((_seconds_tolerated(pod, taint, view.now) for taint in _no_execute(node.spec.taints)), default=None)
        if wait is None or wait == float("inf"):
            return NOTHING
        return Step(again=wait) if wait > 0 else _eviction_step(pod, view.now)


def _no_execute(taints: list[Taint] | None) -> list[Taint]:
    return [taint for taint in taints or () if taint.effect == NO_EXECUTE]


def _seconds_tolerated(pod: Pod, taint: Taint, now: float) -> float:
    """Seconds the pod may still stay: infinite, until its shortest matching toleration ends, or 0."""
    matching = [each for each in pod.spec.tolerations or () if tolerates_taint(each, taint)]
    if not matching:
        return 0.0
    limits = [each.toleration_seconds for each in matching if each.toleration_seconds is not None]
    if not limits:
        return float("inf")
    since = parse_time(taint.time_added) if taint.time_added else now
    return max(0.0, since + max(0, min(limits)) - now)


def _eviction_step(pod: Pod, now: float) -> Step:
    meta = pod.metadata
    entry = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": format_time(now),
    }
    mark = Patch(
        kind=POD,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid}, "status": {"conditions": [entry]}},
        subresource="status",
        type=STRATEGIC_PATCH,
    )
    return Step((mark, Delete.of(POD, pod)))

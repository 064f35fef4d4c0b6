"""Kubelets: bound pods start, become ready, exit and restart; deleted pods stop and go.

    Pending ──start──> Running ──ready──> Running, Ready ──exit──> Succeeded | Failed | restarted
       └──────────── deletionTimestamp, grace over ────────────> gone

All kubelets are one rule over pods. A kubelet that is silent (an annotation on its node) does nothing at all.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import NODE, PERSISTENT_VOLUME_CLAIM, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Container, Document, Node, Pod
from restow.model.pods import find_condition, is_finished, is_ready
from restow.model.times import format_time, parse_time
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.instructions import instruction_value
from restow.sim.world.kubelet_admission import admission_failure
from restow.sim.world.pods import restart_count
from restow.sim.world.rule import Rule
from restow.sim.world.settings import EXIT_CODE, NEVER_READY, READY, RUN, SILENT_SINCE, START, STOP, Settings
from restow.sim.world.step import NOTHING, Delete, Patch, Step
from restow.sim.world.view import View

_NEVER = float("inf")
_RESTART = 1.0  # seconds between two runs of a container, at least


class Kubelets(Rule):
    kind = POD
    also = (NODE, PERSISTENT_VOLUME_CLAIM)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        meta = change.object.metadata
        if kind == NODE:
            old, new = change.old, change.object
            if old is not None and (is_silent(old), is_node_ready(old)) == (is_silent(new), is_node_ready(new)):
                return ()
            return [key_of(pod) for pod in view.pods_on(meta.name)]
        return [key_of(pod) for pod in view.pods_using(meta.namespace or "", meta.name)]

    def decide(self, key: Key, view: View) -> Step:
        pod = view.get(POD, key)
        node = view.node(pod.spec.node_name) if pod else None
        if pod is None or node is None or is_silent(node):
            return NOTHING
        if pod.metadata.deletion_timestamp:
            return self._stop(pod, view.now)
        if is_finished(pod):
            return NOTHING
        if pod.status.phase != "Running":
            return self._start(pod, node, view)
        debugging = _ephemeral_statuses(pod, view.now)
        return _status_patch(pod, debugging) if debugging else self._run(pod, is_node_ready(node), view.now)

    # ---- the life of a pod

    def _start(self, pod: Pod, node: Node, view: View) -> Step:
        wait = _bound_at(pod) + _instructed_seconds(pod, START, self._settings.start) - view.now
        if wait > 0:
            return Step(again=wait)
        if not _claims_bound(pod, view):
            return NOTHING
        reason = admission_failure(pod, node, view)
        if reason is not None:
            return _status_patch(pod, {"phase": "Failed", "reason": reason[0], "message": reason[1]})
        ready = (
            _instructed_seconds(pod, READY, self._settings.ready) <= 0
            and not instruction_value(pod, NEVER_READY)
            and is_node_ready(node)
        )
        return _status_patch(pod, _running_status(pod, node, ready, view.now))

    def _run(self, pod: Pod, served: bool, now: float) -> Step:
        """The first of these events: the deadline of the pod, the end of its containers, its readiness."""
        deadline = _begun_at(pod, now) + (_NEVER if (limit := pod.spec.active_deadline_seconds) is None else limit)
        end = _started_at(pod, now) + _instructed_seconds(pod, RUN, _NEVER)
        if now >= deadline:
            message = "Pod was active on the node longer than the specified deadline"
            return _status_patch(
                pod, _exited_status(pod, 137, now) | {"reason": "DeadlineExceeded", "message": message}
            )
        if now >= end:
            return self._exit(pod, now)
        ready = _NEVER
        if served and not is_ready(pod) and not instruction_value(pod, NEVER_READY):
            ready = _started_at(pod, now) + _instructed_seconds(pod, READY, self._settings.ready)
        if now >= ready:
            return _status_patch(pod, _readiness(pod, True, now))
        wait = min(deadline, end, ready) - now
        return Step(again=wait) if wait < _NEVER else NOTHING

    def _exit(self, pod: Pod, now: float) -> Step:
        """The containers have ended: the pod restarts them or finishes, as its restart policy says."""
        code = int(instruction_value(pod, EXIT_CODE) or 0)
        policy = pod.spec.restart_policy or "Always"
        if policy == "Always" or (policy == "OnFailure" and code):
            return _status_patch(pod, {"containerStatuses": _statuses(pod, now, ready=is_ready(pod), restarted=True)})
        return _status_patch(pod, _exited_status(pod, code, now))

    def _stop(self, pod: Pod, now: float) -> Step:
        meta = pod.metadata
        grace = float(meta.deletion_grace_period_seconds or 0)
        asked = parse_time(meta.deletion_timestamp or "") - grace
        wait = asked + min(grace, _instructed_seconds(pod, STOP, self._settings.stop)) - now
        if wait > 0:
            return Step(again=wait)
        if meta.finalizers:
            # The owner of the finalizer, such as the Job controller, reads how the pod ended before it is removed.
            return NOTHING if is_finished(pod) and not grace else self._end(pod, now)
        return Step((Delete.of(POD, pod, grace=0),))

    def _end(self, pod: Pod, now: float) -> Step:
        report = _status_patch(pod, _exited_status(pod, 143, now)).writes
        return Step((*(() if is_finished(pod) else report), Delete.of(POD, pod, grace=0)))


def is_silent(node: Node) -> bool:
    return instruction_value(node, SILENT_SINCE) is not None


def is_node_ready(node: Node) -> bool:
    """Whether a node's Ready condition is True; pods on other nodes are not ready either."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


# ---- what is read


def _instructed_seconds(pod: Pod, key: str, otherwise: float) -> float:
    seconds = instruction_value(pod, key)
    return otherwise if seconds is None else seconds


def _bound_at(pod: Pod) -> float:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    since = scheduled.last_transition_time if scheduled and scheduled.status == "True" else None
    return parse_time(since or pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def _started_at(pod: Pod, now: float) -> float:
    """When the containers last started: every run of a restarted pod takes its full time."""
    again = restart_count(pod)
    return _begun_at(pod, now) + (again * max(_instructed_seconds(pod, RUN, 0.0), _RESTART) if again else 0.0)


def _begun_at(pod: Pod, now: float) -> float:
    return parse_time(pod.status.start_time) if pod.status.start_time else now


def _claims_bound(pod: Pod, view: View) -> bool:
    """Volumes are mounted only once every claim is bound."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim:
            key = (pod.metadata.namespace or "", volume.persistent_volume_claim.claim_name)
            claim = view.get(PERSISTENT_VOLUME_CLAIM, key)
            if claim is None or claim.status.phase != "Bound":
                return False
    return True


# ---- what is written


def _status_patch(pod: Pod, status: Document, again: float | None = None) -> Step:
    meta = pod.metadata
    patch = Patch(
        kind=POD,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid}, "status": status},
        subresource="status",
        type=STRATEGIC_PATCH,
    )
    return Step((patch,), again)


def _running_status(pod: Pod, node: Node, ready: bool, now: float) -> Document:
    since = format_time(now)
    addresses = node.status.addresses or ()
    host = next(
        (each.address for each in addresses if each.type == "InternalIP"), _address("172.16", node.metadata.uid)
    )
    own = host if pod.spec.host_network else _address("10", pod.metadata.uid)
    settled = [
        {"type": kind, "status": "True", "lastTransitionTime": since}
        for kind in ("PodReadyToStartContainers", "Initialized")
    ]
    readiness = _readiness(pod, ready, now)
    return {
        "phase": "Running",
        "startTime": since,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "initContainerStatuses": [_init_status(each, since) for each in pod.spec.init_containers or ()] or None,
        **readiness,
        "conditions": [*settled, *readiness["conditions"]],
    }


def _readiness(pod: Pod, ready: bool, now: float) -> Document:
    return {
        "conditions": ready_conditions(pod, ready, now),
        "containerStatuses": _statuses(pod, now, ready=ready),
    }


def ready_conditions(pod: Pod, ready: bool, now: float, reason: str | None = None) -> list[Document]:
    """The conditions ContainersReady and Ready; transition times change only with the status."""
    entries: list[Document] = []
    for kind in ("ContainersReady", "Ready"):
        status = "True" if ready else "False"
        before = find_condition(pod.status.conditions, kind)
        same = before is not None and before.status == status and before.last_transition_time
        why = reason or (None if ready else "ContainersNotReady")
        since = same or format_time(now)
        entries.append({"type": kind, "status": status, "reason": why, "lastTransitionTime": since})
    return entries


def _statuses(pod: Pod, now: float, *, ready: bool, restarted: bool = False) -> list[Document]:
    before = {status.name: status for status in pod.status.container_statuses or ()}
    statuses: list[Document] = []
    for container in pod.spec.containers or ():
        known = before.get(container.name)
        statuses.append(
            {
                "name": container.name,
                "image": container.image or "",
                "imageID": "",
                "containerID": f"sim://{pod.metadata.uid}/{container.name}",
                "ready": ready,
                "started": True,
                "restartCount": (known.restart_count or 0 if known else 0) + (1 if restarted else 0),
                "state": {"running": {"startedAt": format_time(now if restarted else _started_at(pod, now))}},
            }
        )
    return statuses


def _init_status(container: Container, since: str) -> Document:
    sidecar = container.restart_policy == "Always"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": since}
    return {
        "name": container.name,
        "image": container.image or "",
        "imageID": "",
        "ready": True,
        "started": sidecar,
        "restartCount": 0,
        "state": {"running": {"startedAt": since}} if sidecar else {"terminated": ended},
    }


def _ephemeral_statuses(pod: Pod, now: float) -> Document | None:
    """How containers added for debugging end, if there is one that has not: `kubectl debug` waits for that."""
    wanted = pod.spec.ephemeral_containers or ()
    known = {status.name for status in pod.status.ephemeral_container_statuses or ()}
    if all(container.name in known for container in wanted):
        return None
    ended = {
        "exitCode": 1,
        "reason": "ContainersDoNotRun",
        "message": "the embedded kubelet runs no containers",
        "startedAt": format_time(now),
        "finishedAt": format_time(now),
    }
    shared = {"imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}
    statuses = [{"name": each.name, "image": each.image or "", **shared} for each in wanted]
    return {"ephemeralContainerStatuses": statuses}


def _exited_status(pod: Pod, code: int, now: float) -> Document:
    reason = "Error" if code else "Completed"
    ended = {"exitCode": code, "reason": reason, "finishedAt": format_time(now)}
    statuses = [
        status | {"ready": False, "started": False, "state": {"terminated": ended, "running": None}}
        for status in _statuses(pod, now, ready=False)
    ]
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": statuses,
        "conditions": ready_conditions(pod, False, now, "PodFailed" if code else "PodCompleted"),
    }


def _address(prefix: str, uid: str) -> str:
    """An address that is the pod's or node's own, and the same in every run."""
    digest = zlib.crc32(uid.encode())
    octets = [digest >> shift & 255 for shift in (16, 8, 0)]
    return ".".join([prefix, *map(str, octets[prefix.count(".") :])])

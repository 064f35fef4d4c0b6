"""The status of a Deployment: replica counts, and the conditions Available and Progressing.

`kubectl rollout status` waits for observedGeneration, the updated and available replicas and the reason of Progressing.
"""

from __future__ import annotations

from restow.model.objects import Document
from restow.model.times import format_time, parse_time
from restow.sim.world.raw_objects import DEPLOYMENT, RawObject
from restow.sim.world.rollout import Bounds, available_count, replica_count
from restow.sim.world.rule import none_if_zero, with_condition, write_status
from restow.sim.world.step import Write

CREATED, UPDATED, AVAILABLE = "NewReplicaSetCreated", "ReplicaSetUpdated", "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
_PROGRESS = {
    CREATED: "is being created",
    UPDATED: "is progressing",
    AVAILABLE: "has successfully progressed",
    TIMED_OUT: "has timed out progressing",
}


class DeploymentStatusWriter:
    """One Deployment and its ReplicaSets at one moment; `new` is the set of the present template, if it exists."""

    def __init__(
        self, deployment: RawObject, sets: list[RawObject], new: RawObject | None, bounds: Bounds, now: float
    ) -> None:
        self._deployment = deployment
        self._sets = sets
        self._new = new
        self._bounds = bounds
        self._now = now

    def write(self, creating: bool) -> tuple[list[Write], float | None]:
        """The status write, if the status changes, and the seconds until it must be looked at again."""
        available = sum(available_count(each) for each in self._sets)
        counts = {
            "replicas": none_if_zero(sum(each.status.get("replicas") or 0 for each in self._sets)),
            "updatedReplicas": none_if_zero((self._new.status.get("replicas") or 0) if self._new else 0),
            "readyReplicas": none_if_zero(sum(each.status.get("readyReplicas") or 0 for each in self._sets)),
            "availableReplicas": none_if_zero(available),
            "unavailableReplicas": none_if_zero(max(0, sum(map(replica_count, self._sets)) - available)),
        }
        conditions = self._availability(available)
        conditions, again = self._progress(conditions, counts, creating)
        wanted = counts | {"observedGeneration": self._deployment.metadata.generation, "conditions": conditions}
        return write_status(DEPLOYMENT, self._deployment, wanted), again

    def _availability(self, available: int) -> list[Document]:
        conditions: list[Document] = self._deployment.status.get("conditions") or []
        enough = available >= self._bounds.replicas - self._bounds.unavailable
        status = "True" if enough else "False"
        if any((each["type"], each["status"]) == ("Available", status) for each in conditions):
            return conditions
        reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        message = f"Deployment {'has' if enough else 'does not have'} minimum availability."
        return _set(conditions, "Available", status, reason, message, self._now)

    def _progress(
        self, conditions: list[Document], counts: Document, creating: bool
    ) -> tuple[list[Document], float | None]:
        """The conditions with Progressing brought up to date, and the seconds until its deadline must be checked."""
        current = next((each for each in conditions if each["type"] == "Progressing"), None)
        deadline = float(self._deployment.spec.get("progressDeadlineSeconds", 600))
        left = parse_time(current["lastUpdateTime"]) + deadline - self._now if current else deadline
        reason = self._new_reason(current, counts, creating, left)
        latest = reason or (current or {}).get("reason")
        again = None if latest in (AVAILABLE, TIMED_OUT) or self._deployment.spec.get("paused") else max(left, 0.0) + 1
        if reason is None:
            return conditions, again
        name = self._new.metadata.name if self._new else self._deployment.metadata.name
        status = "False" if reason == TIMED_OUT else "True"
        message = f'ReplicaSet "{name}" {_PROGRESS[reason]}.'
        return _set(conditions, "Progressing", status, reason, message, self._now), again

    def _new_reason(self, current: Document | None, counts: Document, creating: bool, left: float) -> str | None:
        """The new reason of Progressing; None if it does not change."""
        reason = (current or {}).get("reason")
        total, updated, available = (counts[key] or 0 for key in ("replicas", "updatedReplicas", "availableReplicas"))
        if creating:
            return CREATED
        if total == updated and reason == AVAILABLE:
            return None
        if self._new is not None and total == updated == available == self._bounds.replicas:
            return AVAILABLE
        if current is None or self._progressed(counts):
            return UPDATED
        stuck = left <= 0 and reason != TIMED_OUT and not self._deployment.spec.get("paused")
        return TIMED_OUT if stuck else None

    def _progressed(self, counts: Document) -> bool:
        before = self._deployment.status
        then = {key: before.get(key) or 0 for key in counts}
        now = {key: value or 0 for key, value in counts.items()}
        return (
            now["updatedReplicas"] > then["updatedReplicas"]
            or now["replicas"] - now["updatedReplicas"] < then["replicas"] - then["updatedReplicas"]
            or now["readyReplicas"] > then["readyReplicas"]
            or now["availableReplicas"] > then["availableReplicas"]
        )


def _set(conditions: list[Document], kind: str, status: str, reason: str, message: str, now: float) -> list[Document]:
    """Conditions of a Deployment also say when they were last updated, changed or not."""
    changed = with_condition(conditions, kind, status, reason, message, now)
    return [each | {"lastUpdateTime": format_time(now)} if each["type"] == kind else each for each in changed]

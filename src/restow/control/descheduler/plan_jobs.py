"""A plan as PodMigrationJobs, one for each move. `migration.plans` reads such jobs back.

The name of a job is a digest of the plan and the move, so that creating it twice creates it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from restow.migration.job_annotations import PLAN_ANNOTATION, PRIORITY_ANNOTATION, WAVE_ANNOTATION
from restow.migration.reservation import TARGET_ANNOTATION
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.names import name_stem, short_digest
from restow.model.objects import Document, JobMode, ObjectReference, Pod
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.planning.plan import Move, Plan, configuration_fingerprint

PROFILE_ANNOTATION: Final = "restow.sh/profile"
STRATEGY_ANNOTATION: Final = "restow.sh/strategy"
_DIGITS: Final = 10


def new_plan_name(title: str, plan: Plan, moment: float | None = None) -> str:
    """The name of a plan in the annotations of its jobs. It differs for different moves, and for different moments."""
    moves = [(move.order, move.wave, move.namespace, move.pod, move.uid, move.target) for move in plan.moves]
    return f"{name_stem(title, 'plan')}-{configuration_fingerprint([title, moves, moment])[:_DIGITS]}"


class PlanJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Writes the jobs of one plan."""

    plan: str
    """The name of the plan."""
    move_count: int = 0
    grace_seconds: int | None = None
    annotations: Mapping[str, str] = {}
    """On every job."""

    def job_name(self, move: Move) -> str:
        return self._name(f"{move.namespace}/{move.pod}/{move.uid}/{move.order}")

    def move_document(self, move: Move, pod: ObjectReference, strategy: str) -> Document:
        """The job that makes a move. `pod` is the pod to evict now: for the second move of a pod, the successor that
        the first move has brought. Earlier moves get a higher priority, so arbitration admits them first."""
        annotations = {
            WAVE_ANNOTATION: str(move.wave),
            TARGET_ANNOTATION: move.target,
            PRIORITY_ANNOTATION: str(self.move_count - move.order),
            MOVED_FROM_ANNOTATION: move.source,
        }
        return self._document(self.job_name(move), pod, strategy, annotations, {})

    def removal_document(self, pod: Pod, strategy: str) -> Document:
        """The job that removes a finished pod. It needs no seat."""
        meta = pod.metadata
        source = {MOVED_FROM_ANNOTATION: pod.spec.node_name} if pod.spec.node_name else {}
        reference = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        mode = {"mode": JobMode.EVICT_DIRECTLY.value}
        return self._document(self._name(meta.uid), reference, strategy, {WAVE_ANNOTATION: "1", **source}, mode)

    def _name(self, key: str) -> str:
        return f"{self.plan}-{short_digest(key)}"

    def _document(
        self, name: str, pod: ObjectReference, strategy: str, annotations: Mapping[str, str], spec: Mapping[str, str]
    ) -> Document:
        options = {} if self.grace_seconds is None else {"deleteOptions": {"gracePeriodSeconds": self.grace_seconds}}
        of_plan = {PLAN_ANNOTATION: self.plan, STRATEGY_ANNOTATION: strategy}
        return {
            "apiVersion": POD_MIGRATION_JOB.api_version,
            "kind": POD_MIGRATION_JOB.kind,
            "metadata": {"name": name, "annotations": {**self.annotations, **of_plan, **annotations}},
            "spec": {"podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}, **options, **spec},
        }


def pod_reference(move: Move) -> ObjectReference:
    """The pod of a move."""
    return ObjectReference(namespace=move.namespace, name=move.pod, uid=move.uid)

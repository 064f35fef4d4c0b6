"""Jobs: a plan as PodMigrationJobs, one for each move. What they then tell about plans is `migration.plans`.

The names of jobs derive from the plan and the move alone, so that whoever writes them twice writes them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from restow.migration.job_annotations import PLAN_ANNOTATION, PRIORITY_ANNOTATION, WAVE_ANNOTATION
from restow.migration.reservation import TARGET_ANNOTATION
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.names import digest, stem
from restow.model.objects import Document, JobMode, ObjectReference, Pod
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.planning.plan import Move, Plan, configuration_fingerprint

PROFILE_ANNOTATION: Final = "restow.sh/profile"
STRATEGY_ANNOTATION: Final = "restow.sh/strategy"
_DIGITS: Final = 10


def new_plan_name(title: str, plan: Plan, moment: float | None = None) -> str:
    """What a plan is called in its jobs: another plan, or the same at another moment, has another name."""
    moves = [(move.order, move.wave, move.namespace, move.pod, move.uid, move.target) for move in plan.moves]
    return f"{stem(title, 'plan')}-{configuration_fingerprint([title, moves, moment])[:_DIGITS]}"


class PlanJobs(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of one plan are written."""

    plan: str
    move_count: int = 0
    """How many there are."""
    grace_seconds: int | None = None
    annotations: Mapping[str, str] = {}
    """On every job."""

    def job_name(self, move: Move) -> str:
        return self._name(f"{move.namespace}/{move.pod}/{move.uid}/{move.order}")

    def move_document(self, move: Move, pod: ObjectReference, strategy: str) -> Document:
        """The job that makes a move, of the pod that it is about now. Earlier moves of a wave come first, other things
        being equal."""
        notes = {
            WAVE_ANNOTATION: str(move.wave),
            TARGET_ANNOTATION: move.target,
            PRIORITY_ANNOTATION: str(self.move_count - move.order),
            MOVED_FROM_ANNOTATION: move.source,
        }
        return self._document(self.job_name(move), pod, strategy, notes, {})

    def removal_document(self, pod: Pod, strategy: str) -> Document:
        """The job that takes a pod away which is over: it needs no seat."""
        meta = pod.metadata
        came_from = {MOVED_FROM_ANNOTATION: pod.spec.node_name} if pod.spec.node_name else {}
        reference = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        notes = {WAVE_ANNOTATION: "1", **came_from}
        return self._document(self._name(meta.uid), reference, strategy, notes, {"mode": JobMode.EVICT_DIRECTLY.value})

    def _name(self, about: str) -> str:
        return f"{self.plan}-{digest(about)}"

    def _document(
        self, name: str, pod: ObjectReference, strategy: str, notes: Mapping[str, str], spec: Mapping[str, str]
    ) -> Document:
        options = {} if self.grace_seconds is None else {"deleteOptions": {"gracePeriodSeconds": self.grace_seconds}}
        about = {PLAN_ANNOTATION: self.plan, STRATEGY_ANNOTATION: strategy}
        return {
            "apiVersion": POD_MIGRATION_JOB.api_version,
            "kind": POD_MIGRATION_JOB.kind,
            "metadata": {"name": name, "annotations": {**self.annotations, **about, **notes}},
            "spec": {"podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}, **options, **spec},
        }


def pod_reference(move: Move) -> ObjectReference:
    """The pod that moves."""
    return ObjectReference(namespace=move.namespace, name=move.pod, uid=move.uid)

"""Jobs: a plan as PodMigrationJobs, one for each move, and what jobs tell about plans.

The names of jobs derive from the plan and the move alone, so that whoever writes them twice writes them once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from restow.migration.arbitration import PRIORITY_ANNOTATION
from restow.migration.conditions import ended_at, is_ended
from restow.migration.history import evicted_at
from restow.migration.reservation import TARGET_ANNOTATION, target_node
from restow.migration.waves import PLAN_ANNOTATION, WAVE_ANNOTATION, plan_of
from restow.model.cluster import MOVED_FROM_ANNOTATION
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.objects import JobMode, JobPhase, ObjectReference, Pod, PodMigrationJob
from restow.planning.plan import Move, Plan, fingerprint

PROFILE_ANNOTATION: Final = "restow.sh/profile"
STRATEGY_ANNOTATION: Final = "restow.sh/strategy"
_ODD = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 40
_DIGITS: Final = 10

Document = dict[str, Any]


def plan_name(title: str, plan: Plan, moment: float | None = None) -> str:
    """What a plan is called in its jobs: another plan, or the same at another moment, has another name."""
    moves = [(move.order, move.wave, move.namespace, move.pod, move.uid, move.target) for move in plan.moves]
    short = _ODD.sub("-", title.lower()).strip("-")[:_LONGEST].rstrip("-") or "plan"
    return f"{short}-{fingerprint([title, moves, moment])[:_DIGITS]}"


class PlanJobs(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of one plan are written."""

    plan: str
    moves: int = 0
    """How many there are."""
    grace: int | None = None
    annotations: Mapping[str, str] = {}
    """On every job."""

    def name(self, move: Move) -> str:
        return self._name(f"{move.namespace}/{move.pod}/{move.uid}/{move.order}")

    def move(self, move: Move, pod: ObjectReference, strategy: str) -> Document:
        """The job that makes a move, of the pod that it is about now. Earlier moves of a wave come first, other things
        being equal."""
        notes = {
            WAVE_ANNOTATION: str(move.wave),
            TARGET_ANNOTATION: move.target,
            PRIORITY_ANNOTATION: str(self.moves - move.order),
            MOVED_FROM_ANNOTATION: move.source,
        }
        return self._document(self.name(move), pod, strategy, notes, {})

    def removal(self, pod: Pod, strategy: str) -> Document:
        """The job that takes a pod away which is over: it needs no seat."""
        meta = pod.metadata
        came_from = {MOVED_FROM_ANNOTATION: pod.spec.node_name} if pod.spec.node_name else {}
        reference = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        notes = {WAVE_ANNOTATION: "1", **came_from}
        return self._document(self._name(meta.uid), reference, strategy, notes, {"mode": JobMode.EVICT_DIRECTLY.value})

    def _name(self, about: str) -> str:
        return f"{self.plan}-{hashlib.sha256(about.encode()).hexdigest()[:_DIGITS]}"

    def _document(
        self, name: str, pod: ObjectReference, strategy: str, notes: Mapping[str, str], spec: Mapping[str, str]
    ) -> Document:
        options = {} if self.grace is None else {"deleteOptions": {"gracePeriodSeconds": self.grace}}
        about = {PLAN_ANNOTATION: self.plan, STRATEGY_ANNOTATION: strategy}
        return {
            "apiVersion": POD_MIGRATION_JOB.api_version,
            "kind": POD_MIGRATION_JOB.kind,
            "metadata": {"name": name, "annotations": {**self.annotations, **about, **notes}},
            "spec": {"podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}, **options, **spec},
        }


def reference_to(move: Move) -> ObjectReference:
    """The pod that moves."""
    return ObjectReference(namespace=move.namespace, name=move.pod, uid=move.uid)


# --- what jobs tell ---------------------------------------------------------------------------------------------------


def under_way(jobs: Iterable[PodMigrationJob]) -> str:
    """Which plan is being carried out, in a sentence; empty if none is."""
    counts: dict[str, list[int]] = {}
    for job in jobs:
        plan = plan_of(job)
        if plan is not None:
            count = counts.setdefault(plan, [0, 0])
            count[0] += not is_ended(job)
            count[1] += 1
    live = {plan: count for plan, count in sorted(counts.items()) if count[0]}
    if not live:
        return ""
    plan, (left, total) = next(iter(live.items()))
    more = f" (and {len(live) - 1} plans more)" if len(live) > 1 else ""
    return f"plan {plan} is under way{more}: {left} of its {total} jobs have not ended"


def migrated(jobs: Iterable[PodMigrationJob]) -> dict[str, float]:
    """By node: when a migration last took a pod from it or brought one to it."""
    found: dict[str, float] = {}
    for job in jobs:
        when = ended_at(job)
        if when is None or (job.status.phase != JobPhase.SUCCEED and evicted_at(job) is None):
            continue
        came_from = (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION)
        for node in (came_from, job.status.node_name or target_node(job)):
            if node:
                found[node] = max(when, found.get(node, when))
    return found


def busy(jobs: Iterable[PodMigrationJob], now: float, after_failure: float) -> dict[str, str]:
    """By UID of a pod that is not to be planned with now: why."""
    found: dict[str, str] = {}
    for job in sorted(jobs, key=lambda one: one.metadata.name):
        uid, name = job.spec.pod_ref.uid or "", job.metadata.name
        if not is_ended(job):
            found[uid] = f"job {name} moves it already"
            continue
        when = ended_at(job)
        if job.status.phase != JobPhase.SUCCEED and when is not None and now - when < after_failure:
            left = after_failure - (now - when)
            told = (
                f"job {name} could not move it: {job.status.message or job.status.reason}; left alone for {left:.0f}s"
            )
            found.setdefault(uid, told)
    return found

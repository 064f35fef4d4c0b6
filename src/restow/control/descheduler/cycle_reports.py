"""What the descheduler tells about its cycles: log lines, metrics and Events.

Goes in: what a cycle planned and did. Comes out: one log line per cycle, counts and durations, and an Event on each pod
that is to move. When usage is not measured, and when it is again, an Event is recorded on the ConfigMap of the
configuration.
"""

from __future__ import annotations

import logging

from restow.client.event_recorder import EventRecorder
from restow.control.descheduler.metrics import DeschedulerMetrics
from restow.control.descheduler.plan_jobs import PROFILE_ANNOTATION, STRATEGY_ANNOTATION
from restow.control.descheduler.usage_metrics import UsageReading
from restow.defaults import NAME
from restow.migration.history import eviction_intended_at
from restow.model.kinds import POD
from restow.model.objects import JobPhase, ObjectReference, PodMigrationJob
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.planning.descheduling.framework import PodRemoval
from restow.planning.descheduling.profile_cycle import CycleOutcome
from restow.planning.plan import Move

log = logging.getLogger(__name__)


class CycleReports:
    def __init__(self, recorder: EventRecorder, metrics: DeschedulerMetrics, namespace: str) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._configuration = ObjectReference(api_version="v1", kind="ConfigMap", namespace=namespace, name=NAME)
        """The ConfigMap of the configuration. Events about usage are recorded on it."""
        self._was_measured = True

    # --- a cycle ------------------------------------------------------------------------------------------------------

    def cycle_refused(self, profile: str) -> None:
        self._metrics.cycle_ended(profile, "refused")

    def cycle_failed(self, profile: str, error: Exception) -> None:
        log.warning("cycle interrupted", extra={"profile": profile, "err": str(error)})
        self._metrics.cycle_ended(profile, "error")

    def cycle_ended(self, profile: str, plan: str, outcome: CycleOutcome, *, result: str, seconds: float) -> None:
        """`plan` is the name of the plan; empty if no jobs were created."""
        for plugin, problem in outcome.failures.items():
            log.error("plugin failed", extra={"profile": profile, "plugin": plugin, "err": problem})
        facts = {"profile": profile, "result": result, "plan": plan, "moves": len(outcome.plan.moves)}
        log.info("cycle", extra=facts | {"removals": len(outcome.removals), "refusals": len(outcome.plan.refusals)})
        for refusal in outcome.plan.refusals:
            if not refusal.pod:  # a sentence about many pods
                log.info("pods left out of cycle", extra={"profile": profile, "reason": refusal.reason})
        self._metrics.cycle_ended(profile, result)
        self._metrics.cycle_duration(seconds)
        for plugin, spent in outcome.seconds.items():
            self._metrics.plugin_duration(plugin, profile, spent)

    def usage_read(self, reading: UsageReading, *, record_event: bool) -> None:
        """Count a reading of usage; record an Event when it has a problem, and one when there is none any more."""
        self._metrics.usage_reading(reading.source, reading.result)
        if not record_event:
            return
        if reading.problem:
            message = f"{reading.source}: {reading.problem}"
            self._recorder.record(self._configuration, "UseNotMeasured", message, type="Warning")
        elif not self._was_measured:
            self._recorder.record(
                self._configuration, "UseMeasured", f"{reading.source} answers, its samples are fresh"
            )
        self._was_measured = not reading.problem

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def move_planned(self, profile: str, plan: str, move: Move, strategy: str) -> None:
        self._metrics.move_planned(strategy, profile)
        message = f"plan {plan} moves it from {move.source} to {move.target} ({strategy})"
        self._recorder.record(_pod_reference(move.namespace, move.pod, move.uid), "MovePlanned", message)

    def removal_planned(self, removal: PodRemoval, strategy: str) -> None:
        meta = removal.pod.metadata
        pod = _pod_reference(meta.namespace or "default", meta.name, meta.uid)
        self._recorder.record(pod, "RemovalPlanned", f"{strategy} removes it: {removal.reason}")

    def job_ended(self, job: PodMigrationJob) -> None:
        """Count the eviction of a job that a profile has created."""
        annotations = job.metadata.annotations or {}
        if PROFILE_ANNOTATION not in annotations:
            return
        was_evicted = job.status.phase == JobPhase.SUCCEED or eviction_intended_at(job) is not None
        self._metrics.pod_evicted(
            "success" if was_evicted else "error",
            annotations.get(STRATEGY_ANNOTATION, ""),
            annotations[PROFILE_ANNOTATION],
            job.spec.pod_ref.namespace or "",
            annotations.get(MOVED_FROM_ANNOTATION, ""),
        )


def _pod_reference(namespace: str, name: str, uid: str) -> ObjectReference:
    return ObjectReference(api_version=POD.api_version, kind=POD.kind, namespace=namespace, name=name, uid=uid)

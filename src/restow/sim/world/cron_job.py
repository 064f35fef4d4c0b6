"""CronJobs: a Job at every time of a schedule, and only the last few of them kept.

A Job is named after its time, so that none is made twice, whatever dies in between.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from restow.client.cache import Change
from restow.model.cron import CronError, parse_schedule
from restow.model.kinds import Kind
from restow.model.object_key import Key
from restow.model.objects import Document
from restow.model.pods import controller_of
from restow.model.times import format_time, parse_time
from restow.sim.world.job import how_it_ended
from restow.sim.world.raw_objects import CRON_JOB, JOB, RawObject
from restow.sim.world.rule import Rule, object_reference, reference_to, write_status
from restow.sim.world.step import NOTHING, Create, Delete, Record, Step, Write
from restow.sim.world.view import View

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs(Rule):
    kind = CRON_JOB
    also = (JOB,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        owner = controller_of(change.object)
        return ((change.object.metadata.namespace or "", owner.name),) if owner and owner.kind == "CronJob" else ()

    def decide(self, key: Key, view: View) -> Step:
        cron = view.get(CRON_JOB, key)
        if cron is None or view.is_leaving(cron):
            return NOTHING
        jobs = [job for job in view.owned(JOB, cron.metadata.uid) if not view.is_leaving(job)]
        jobs.sort(key=lambda job: ((job.metadata.annotations or {}).get(SCHEDULED, ""), job.metadata.name))
        active = [job for job in jobs if not how_it_ended(job)]
        try:
            writes, last, again = _start_due_job(cron, active, view)
        except CronError as error:
            writes, last, again = (
                [Record(object_reference(CRON_JOB, cron), "BadSchedule", str(error), "Warning")],
                None,
                None,
            )
        ends = [cron.status.get("lastSuccessfulTime"), *(job.status.get("completionTime") for job in jobs)]
        status = {
            "active": [msgspec.to_builtins(object_reference(JOB, job)) for job in active] or None,
            "lastScheduleTime": format_time(last) if last else cron.status.get("lastScheduleTime"),
            "lastSuccessfulTime": max(filter(None, ends), default=None),
        }
        return Step((*writes, *_delete_finished_jobs(cron, jobs), *write_status(CRON_JOB, cron, status)), again)


def _start_due_job(
    cron: RawObject, active: list[RawObject], view: View
) -> tuple[list[Write], float | None, float | None]:
    """The writes for the time that is due, that time, and the seconds until the next."""
    spec, now = cron.spec, view.now
    schedule = parse_schedule(spec.get("schedule") or "", spec.get("timeZone"))
    if spec.get("suspend"):
        return [], None, None
    upcoming, due = schedule.after(now), schedule.until(now)
    again = upcoming - now if upcoming is not None else None
    since = parse_time(cron.status.get("lastScheduleTime") or cron.metadata.creation_timestamp or format_time(now))
    late = now - spec.get("startingDeadlineSeconds", now)
    policy = spec.get("concurrencyPolicy", "Allow")
    # What is due while it is forbidden stays due: it is made up for once the active job is over.
    if due is None or due <= since or due < late or (active and policy == "Forbid"):
        return [], None, again
    replaced = [Delete.of(JOB, job) for job in active] if policy == "Replace" else []
    return [*replaced, *_create(cron, due, view)], due, again


def _create(cron: RawObject, due: float, view: View) -> list[Write]:
    meta = cron.metadata
    name = f"{meta.name}-{int(due) // 60}"
    if view.get(JOB, (meta.namespace or "", name)) is not None:
        return []
    template: Document = copy.deepcopy(cron.spec.get("jobTemplate") or {})
    metadata: Document = template.get("metadata") or {}
    metadata |= {"name": name, "namespace": meta.namespace, "ownerReferences": [reference_to(CRON_JOB, cron)]}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SCHEDULED: format_time(due)}
    return [Create(JOB, {"metadata": metadata, "spec": template.get("spec") or {}})]


def _delete_finished_jobs(cron: RawObject, jobs: list[RawObject]) -> list[Write]:
    """The oldest finished jobs beyond the limits go."""
    limits = {"Complete": ("successfulJobsHistoryLimit", 3), "Failed": ("failedJobsHistoryLimit", 1)}
    writes: list[Write] = []
    for end, (limit, usual) in limits.items():
        ended = [job for job in jobs if (how_it_ended(job) or {}).get("type") == end]
        kept = int(cron.spec.get(limit, usual))
        writes += [Delete.of(JOB, ended_job) for ended_job in ended[: max(0, len(ended) - kept)]]
    return writes

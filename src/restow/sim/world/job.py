"""Jobs: pods until enough have succeeded or too many have failed, each counted exactly once.

A finished pod keeps a finalizer until it is counted: its uid is first noted in the status, then the finalizer is
removed, then the count goes up and the note goes. Whatever dies in between, no pod is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from restow.client.cache import Change
from restow.model.kinds import POD, Kind
from restow.model.object_key import Key
from restow.model.objects import Document, Pod
from restow.model.pods import controller_of, is_finished, is_ready
from restow.model.times import format_time, parse_time
from restow.sim.world.pods import deletion_order
from restow.sim.world.raw_objects import JOB, RawObject
from restow.sim.world.rule import (
    Rule,
    none_if_zero,
    owner_keys,
    reference_to,
    shortest_wait,
    with_condition,
    write_status,
)
from restow.sim.world.step import Create, Delete, Patch, Step, Write
from restow.sim.world.template import pod_from, random_suffix
from restow.sim.world.view import View

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
Outcome = Literal["succeeded", "failed"]


class Jobs(Rule):
    kind = JOB
    also = (POD,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        return owner_keys(JOB, change, view)

    def decide(self, key: Key, view: View) -> Step:
        job = view.get(JOB, key)
        if job is None:
            return Step(tuple(_untrack(pod) for pod in _left_behind(key, view)))
        pods = view.owned(POD, job.metadata.uid)
        if view.is_leaving(job) or how_it_ended(job):
            return _finished_job_step(job, pods, view)
        return _Run(job, pods, view).step()


def _left_behind(key: Key, view: View) -> list[Pod]:
    """Pods of a deleted Job: no controller will count them any more."""
    tracked = [pod for pod in view.inside(POD, key[0]) if _is_tracked(pod)]
    return [pod for pod in tracked if (owner := controller_of(pod)) and (owner.kind, owner.name) == (JOB.kind, key[1])]


def _finished_job_step(job: RawObject, pods: list[Pod], view: View) -> Step:
    """A job that is over lets its pods go, and goes itself when its time to live is over."""
    writes: list[Write] = [_untrack(pod) for pod in pods if _is_tracked(pod)]
    ttl = job.spec.get("ttlSecondsAfterFinished")
    ended = how_it_ended(job)
    if view.is_leaving(job) or ttl is None or ended is None:
        return Step(tuple(writes))
    wait = parse_time(ended["lastTransitionTime"]) + ttl - view.now
    if wait > 0:
        return Step(tuple(writes), wait)
    return Step((*writes, Delete.of(JOB, job)))


class _Run:
    """One look at a job that is not over."""

    def __init__(self, job: RawObject, pods: list[Pod], view: View) -> None:
        self.job = job
        self.view = view
        self.pods = pods
        self.tracked = {pod.metadata.uid: pod for pod in pods if _is_tracked(pod)}
        noted: Document = job.status.get("uncountedTerminatedPods") or {}
        self.noted: dict[Outcome, list[str]] = {
            "succeeded": list(noted.get("succeeded") or ()),
            "failed": list(noted.get("failed") or ()),
        }
        self.active = [pod for pod in pods if not is_finished(pod) and not view.is_leaving(pod)]
        self.completions: int | None = job.spec.get("completions")
        self.pause = view.creation_pause(job.metadata.uid)
        self.parallelism = int(job.spec.get("parallelism", 1))

    def step(self) -> Step:
        noted = [self.tracked[uid] for uid in self._all_noted() if uid in self.tracked]
        writes: list[Write] = [_untrack(pod) for pod in noted]
        counts = self._counts()
        verdict = self._verdict(counts)
        writes += self._delete(self.active) if verdict or self.job.spec.get("suspend") else self._adjust(counts)
        writes += write_status(JOB, self.job, self._status(verdict))
        return Step(tuple(writes), shortest_wait((self._deadline(), self.pause)) if verdict is None else None)

    # ---- counting

    def _all_noted(self) -> list[str]:
        return [*self.noted["succeeded"], *self.noted["failed"]]

    def _fresh(self, outcome: Outcome) -> list[str]:
        known = set(self._all_noted())
        return [uid for uid, pod in self.tracked.items() if uid not in known and self._outcome(pod) == outcome]

    def _outcome(self, pod: Pod) -> Outcome | None:
        if pod.status.phase == "Succeeded":
            return "succeeded"
        # A pod on its way out without having succeeded will not: its replacement need not wait.
        return "failed" if pod.status.phase == "Failed" or pod.metadata.deletion_timestamp else None

    def _counts(self) -> dict[Outcome, int]:
        """Everything that has ended, whether counted, noted or just seen."""
        return {
            outcome: (self.job.status.get(outcome) or 0) + len(self.noted[outcome]) + len(self._fresh(outcome))
            for outcome in ("succeeded", "failed")
        }

    # ---- deciding

    def _verdict(self, counts: dict[Outcome, int]) -> tuple[str, str, str] | None:
        """(condition, reason, message) once it is known how the job ends."""
        if self.completions is None:
            done = counts["succeeded"] > 0 and not self.active
        else:
            done = counts["succeeded"] >= self.completions
        if done:
            return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if counts["failed"] > int(self.job.spec.get("backoffLimit", 6)):
            return ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if self._deadline() == 0:
            return ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        return None

    def _deadline(self) -> float | None:
        """Seconds until the job has been active for too long."""
        limit, since = self.job.spec.get("activeDeadlineSeconds"), self.job.status.get("startTime")
        return max(0.0, parse_time(since) + limit - self.view.now) if limit is not None and since else None

    def _adjust(self, counts: dict[Outcome, int]) -> list[Write]:
        wanted = self.parallelism
        if self.completions is not None:
            wanted = min(wanted, self.completions - counts["succeeded"])
        elif counts["succeeded"]:
            wanted = len(self.active)
        if wanted < len(self.active):
            order = deletion_order(self.active, self.active, self.view.now)
            return self._delete(order[: len(self.active) - wanted])
        if self.pause:
            return []
        return [self._create(index) for index in self._free_indexes(wanted - len(self.active))]

    def _free_indexes(self, count: int) -> Sequence[int | None]:
        if self.job.spec.get("completionMode") != "Indexed":
            return [None] * count
        taken = {_index(pod) for pod in self.pods if self._outcome(pod) != "failed"}
        taken |= set(_parse_indexes(str(self.job.status.get("completedIndexes") or "")))
        return [index for index in range(self.completions or 0) if index not in taken][:count]

    def _create(self, index: int | None) -> Create:
        meta = self.job.metadata
        stem = meta.name if index is None else f"{meta.name}-{index}"
        name = f"{stem}-{random_suffix(self.view.rng)}"
        template = self.job.spec.get("template") or {}
        pod = pod_from(template, meta.namespace or "", name, reference_to(JOB, self.job))
        mark = {"job-name": meta.name, "controller-uid": meta.uid}
        labels = pod["metadata"].setdefault("labels", {})
        labels |= mark | {f"batch.kubernetes.io/{key}": value for key, value in mark.items()}
        if index is not None:
            labels[INDEX] = str(index)
            pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
        pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), TRACKING]
        return Create(POD, pod)

    def _delete(self, pods: list[Pod]) -> list[Write]:
        return [Delete.of(POD, pod) for pod in pods]

    # ---- status

    def _status(self, verdict: tuple[str, str, str] | None) -> Document:
        suspended = bool(self.job.spec.get("suspend"))
        status: Document = {
            "active": none_if_zero(len(self.active)),
            "ready": sum(map(is_ready, self.active)),
            "terminating": sum(1 for pod in self.pods if self.view.is_leaving(pod) and not is_finished(pod)),
            "startTime": None if suspended else self.job.status.get("startTime") or format_time(self.view.now),
        }
        noted: dict[Outcome, list[str] | None] = {}
        for outcome, uids in self.noted.items():
            status[outcome] = none_if_zero(
                (self.job.status.get(outcome) or 0) + sum(uid not in self.tracked for uid in uids)
            )
            # A merge patch has to say that a list is gone.
            noted[outcome] = [uid for uid in uids if uid in self.tracked] + self._fresh(outcome) or None
        if noted != {outcome: uids or None for outcome, uids in self.noted.items()}:
            status["uncountedTerminatedPods"] = noted
        if self.job.spec.get("completionMode") == "Indexed":
            status["completedIndexes"] = self._completed_indexes() or None
        return status | self._end(verdict, any(noted.values()))

    def _end(self, verdict: tuple[str, str, str] | None, uncounted: bool) -> Document:
        """Conditions: how it will end as soon as that is known, that it has ended once every pod has."""
        conditions: list[Document] = list(self.job.status.get("conditions") or ())
        if verdict is None:
            return {"conditions": conditions} if conditions else {}
        kind, reason, message = verdict
        coming = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        now = self.view.now
        conditions = with_condition(conditions, coming, "True", reason, message, now)
        if self.active or uncounted or any(not is_finished(pod) for pod in self.pods):
            return {"conditions": conditions}
        conditions = with_condition(conditions, kind, "True", reason, message, now)
        completed = {"completionTime": format_time(now)} if kind == "Complete" else {}
        return {"conditions": conditions, **completed}

    def _completed_indexes(self) -> str:
        before = _parse_indexes(str(self.job.status.get("completedIndexes") or ""))
        done = {_index(pod) for pod in self.pods if pod.status.phase == "Succeeded"}
        return _format_indexes(sorted({*before, *(index for index in done if index is not None)}))


def how_it_ended(job: RawObject) -> Document | None:
    conditions: list[Document] = job.status.get("conditions") or []
    return next(
        (each for each in conditions if each["type"] in ("Complete", "Failed") and each["status"] == "True"), None
    )


def _is_tracked(pod: Pod) -> bool:
    return TRACKING in (pod.metadata.finalizers or ())


def _untrack(pod: Pod) -> Patch:
    meta = pod.metadata
    return Patch(
        kind=POD,
        namespace=meta.namespace,
        name=meta.name,
        changes={
            "metadata": {"uid": meta.uid, "finalizers": [f for f in meta.finalizers or () if f != TRACKING] or None}
        },
        version=meta.resource_version,
    )


def _index(pod: Pod) -> int | None:
    text = (pod.metadata.annotations or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def _parse_indexes(text: str) -> list[int]:
    """ "1,3-5" as numbers."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _format_indexes(numbers: list[int]) -> str:
    """Sorted numbers as "1,3-5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

"""Retries: a Job counts a pod that is evicted as one that failed, and fails itself after too many of them.

Goes in: a Job, one of its pods, and which of its pods are lost and not counted yet. Comes out: what the loss of the
pod would end. A pod that is deleted has failed at once, and is counted exactly once: it keeps a finalizer while its UID
is noted in the status, and has lost it when it is in the number there. Without the finalizer it is counted, or nobody
counts it, as when the Job itself gives up a pod because it wants fewer.
Source: isPodFailed, trackJobStatusAndRemoveFinalizers and the backoff limits of Kubernetes' Job controller.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from restow.model.objects import Job, Pod
from restow.model.pods import is_terminating
from restow.model.words import number_of

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""On a pod of an indexed Job: how many pods of its index failed before."""
TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that its Job has not counted yet."""
_DEFAULT_LIMIT = 6
_DISRUPTED = "DisruptionTarget"
"""The condition of a pod that the API server was asked to evict."""


def is_fresh_loss(pod: Pod) -> bool:
    """Whether a pod is lost to its Job, which has not counted it yet."""
    if TRACKING not in (pod.metadata.finalizers or ()):
        return False
    return pod.status.phase == "Failed" or (is_terminating(pod) and pod.status.phase != "Succeeded")


def end_by_loss(job: Job, pod: Pod, fresh: Set[str]) -> str:
    """What would be over if a pod were lost, in a sentence; empty if another would take its place. `fresh` are the UIDs
    of fresh losses."""
    name, action = f"Job {job.metadata.namespace}/{job.metadata.name}", _action(job)
    if action in ("FailJob", "FailIndex"):
        return f"its podFailurePolicy answers its loss by {action}: {name} would not make it again"
    if action == "Ignore":
        return ""
    per_index = job.spec.backoff_limit_per_index
    if per_index is not None:
        text = (pod.metadata.annotations or {}).get(FAILURES, "")
        return _used_up(name, "backoffLimitPerIndex", per_index, int(text) if text.isdecimal() else 0)
    limit = _DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    return _used_up(name, "backoffLimit", limit, _lost_besides(pod, job, fresh))


def _lost_besides(pod: Pod, job: Job, fresh: Set[str]) -> int:
    """How many other pods a Job has lost: counted, noted to be, or just seen."""
    uncounted, own = job.status.uncounted_terminated_pods, pod.metadata.uid
    noted = [uid for uid in (uncounted.failed if uncounted else None) or () if uid not in fresh]
    return (job.status.failed or 0) + len(fresh) + len(noted) - (own in fresh or own in noted)


def _used_up(name: str, limit: str, most: int, failed: int) -> str:
    if failed < most:
        return ""
    return (
        f"{name} would fail, and not make it again: {number_of(failed, 'pod', 'were')} lost already, {limit} is {most}"
    )


def _action(job: Job) -> str:
    """What its policy says to an eviction; empty if nothing."""
    policy = job.spec.pod_failure_policy
    for rule in (policy.rules if policy else None) or ():
        if any((one.type, one.status) == (_DISRUPTED, "True") for one in rule.on_pod_conditions or ()):
            return rule.action
    return ""

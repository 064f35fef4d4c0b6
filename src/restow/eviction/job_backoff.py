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

from restow.model.counted_nouns import counted_noun
from restow.model.objects import ExitCodes, Job, Pod
from restow.model.pods import is_terminating

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""On a pod of an indexed Job: how many pods of its index failed before."""
TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that its Job has not counted yet."""
_KILLED: Final = frozenset({137, 143})
"""What a container that is told to stop exits with, unless it has something else to say: by SIGKILL, by SIGTERM."""
_DEFAULT_LIMIT = 6
_ENDING: Final = ("FailJob", "FailIndex")
_DISRUPTED = "DisruptionTarget"
"""The condition of a pod that the API server was asked to evict."""


def is_uncounted_failure(pod: Pod) -> bool:
    """Whether a pod is lost to its Job, which has not counted it yet."""
    if TRACKING not in (pod.metadata.finalizers or ()):
        return False
    return pod.status.phase == "Failed" or (is_terminating(pod) and pod.status.phase != "Succeeded")


def job_failure_by_loss(job: Job, pod: Pod, fresh: Set[str]) -> str:
    """What would be over if a pod were lost, in a sentence; empty if another would take its place. `fresh` are the UIDs
    of fresh losses."""
    name, action = f"Job {job.metadata.namespace}/{job.metadata.name}", _worst_policy_action(job, pod)
    if action in _ENDING:
        return f"its podFailurePolicy answers its loss by {action}: {name} would not make it again"
    if action == "Ignore":
        return ""
    per_index = job.spec.backoff_limit_per_index
    if per_index is not None:
        text = (pod.metadata.annotations or {}).get(FAILURES, "")
        return _limit_used_up(name, "backoffLimitPerIndex", per_index, int(text) if text.isdecimal() else 0)
    limit = _DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    return _limit_used_up(name, "backoffLimit", limit, _other_failures(pod, job, fresh))


def _other_failures(pod: Pod, job: Job, fresh: Set[str]) -> int:
    """How many other pods a Job has lost: counted, noted to be, or just seen."""
    uncounted, own = job.status.uncounted_terminated_pods, pod.metadata.uid
    noted = [uid for uid in (uncounted.failed if uncounted else None) or () if uid not in fresh]
    return (job.status.failed or 0) + len(fresh) + len(noted) - (own in fresh or own in noted)


def _limit_used_up(name: str, limit: str, most: int, failed: int) -> str:
    if failed < most:
        return ""
    return f"{name} would fail, and not make it again: {counted_noun(failed, 'pod', 'were')} lost already, {limit} is {most}"


def _worst_policy_action(job: Job, pod: Pod) -> str:
    """The worst that its policy may say to an eviction; empty if nothing. Rules by exit code fit or do not, as the
    containers choose: what comes after one may be what counts."""
    policy, counts = job.spec.pod_failure_policy, False
    for rule in (policy.rules if policy else None) or ():
        is_told = any((one.type, one.status) == (_DISRUPTED, "True") for one in rule.on_pod_conditions or ())
        if not is_told and not _may_match_exit_code(rule.on_exit_codes, pod):
            continue
        if rule.action in _ENDING:
            return rule.action
        counts = counts or rule.action == "Count"
        if is_told:
            return "" if counts else rule.action
    return ""


def _may_match_exit_code(codes: ExitCodes | None, pod: Pod) -> bool:
    """Whether a container that is told to stop may exit so."""
    if codes is None:
        return False
    inside = {one.name for one in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))}
    if codes.container_name and codes.container_name not in inside:
        return False
    named = _KILLED & {*(codes.values or ())}
    return bool(named) if codes.operator == "In" else named != _KILLED

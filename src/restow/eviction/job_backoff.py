"""Job backoff: a Job counts an evicted pod as a failed one, and fails itself after backoffLimit of them.

Goes in: a Job, one of its pods, and the UIDs of its failed pods that it has not counted yet. Comes out: why the Job, or
one of its indexes, would fail if the pod were evicted. A pod that is deleted counts as failed at once, exactly once:
while it has the tracking finalizer its UID is in the status or still to be added there; when the finalizer is gone, it
is in the number of failed pods, or is not counted at all because the Job itself deleted it to scale down.
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
"""The usual exit codes of a container that is told to stop: by SIGKILL, by SIGTERM. It may choose another one."""
_DEFAULT_LIMIT = 6
_ENDING: Final = ("FailJob", "FailIndex")
_DISRUPTED = "DisruptionTarget"
"""The condition that the eviction API sets on a pod."""


def is_uncounted_failure(pod: Pod) -> bool:
    """Whether a pod has failed for its Job, and the Job has not counted it yet."""
    if TRACKING not in (pod.metadata.finalizers or ()):
        return False
    return pod.status.phase == "Failed" or (is_terminating(pod) and pod.status.phase != "Succeeded")


def job_failure_by_loss(job: Job, pod: Pod, uncounted: Set[str]) -> str:
    """What would fail if a pod were evicted, in a sentence; empty if the Job would recreate it. `uncounted` are the
    UIDs of the Job's uncounted failures."""
    name, action = f"Job {job.metadata.namespace}/{job.metadata.name}", _worst_policy_action(job, pod)
    if action in _ENDING:
        return f"its podFailurePolicy reacts to its loss with {action}: {name} would not recreate it"
    if action == "Ignore":
        return ""
    per_index = job.spec.backoff_limit_per_index
    if per_index is not None:
        text = (pod.metadata.annotations or {}).get(FAILURES, "")
        return _limit_used_up(name, "backoffLimitPerIndex", per_index, int(text) if text.isdecimal() else 0)
    limit = _DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    return _limit_used_up(name, "backoffLimit", limit, _other_failures(pod, job, uncounted))


def _other_failures(pod: Pod, job: Job, uncounted: Set[str]) -> int:
    """How many other pods of a Job have failed: counted, listed in its status, or seen to have failed."""
    in_status, own = job.status.uncounted_terminated_pods, pod.metadata.uid
    listed = [uid for uid in (in_status.failed if in_status else None) or () if uid not in uncounted]
    return (job.status.failed or 0) + len(uncounted) + len(listed) - (own in uncounted or own in listed)


def _limit_used_up(name: str, limit: str, most: int, failed: int) -> str:
    if failed < most:
        return ""
    failures = counted_noun(failed, "pod")
    return f"{name} would fail and not recreate it: {limit} is {most}, and {failures} failed before"


def _worst_policy_action(job: Job, pod: Pod) -> str:
    """The worst action that its podFailurePolicy may take on an eviction; empty if none. A rule by exit code may match
    or not, as the containers choose, so the rules after it may be what counts."""
    policy, counts = job.spec.pod_failure_policy, False
    for rule in (policy.rules if policy else None) or ():
        matches_disruption = any(
            (pattern.type, pattern.status) == (_DISRUPTED, "True") for pattern in rule.on_pod_conditions or ()
        )
        if not matches_disruption and not _may_match_exit_code(rule.on_exit_codes, pod):
            continue
        if rule.action in _ENDING:
            return rule.action
        counts = counts or rule.action == "Count"
        if matches_disruption:
            return "" if counts else rule.action
    return ""


def _may_match_exit_code(codes: ExitCodes | None, pod: Pod) -> bool:
    """Whether a container that is told to stop may exit with a code that the rule matches."""
    if codes is None:
        return False
    containers = {container.name for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))}
    if codes.container_name and codes.container_name not in containers:
        return False
    named = _KILLED & {*(codes.values or ())}
    return bool(named) if codes.operator == "In" else named != _KILLED

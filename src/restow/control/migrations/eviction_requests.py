"""Eviction requests: the calls that evict a pod or dry-run its eviction, and what an error in answer to them means.

Goes in: a pod and the options of its job, or an error that the API server answered with. Comes out: requests; or the
refusal in an error, if the error is certainly one.
"""

from __future__ import annotations

from restow.client.verbs import Client
from restow.eviction.budgets import disruption_budget
from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import WriteAnswer
from restow.model.kinds import POD, POD_DISRUPTION_BUDGET
from restow.model.objects import Document, Pod
from restow.model.wire import WireError
from restow.ports import ApiError, Forbidden, Invalid, NotFound, OutcomeUnknown, TooManyRequests, Unauthorized

RETRY_FORBIDDEN_AFTER = 30.0
"""Seconds after which a request is tried again that was forbidden."""
_BUDGET = "DisruptionBudget"
_DENIED = "denied the request"
"""The API server's words for the refusal of an admission webhook, whatever status code the webhook gave."""


async def should_delete(client: Client, pod: Pod, job_options: EffectiveOptions) -> bool:
    """Whether a pod is to be deleted and not evicted. A pod that a budget covers, or may cover, never is: a deletion
    takes nothing from the budget, which would allow other evictions at the same time."""
    if job_options.eviction_policy != "Delete":
        return False
    try:
        budgets = await client.list(POD_DISRUPTION_BUDGET, pod.metadata.namespace)
    except NotFound:
        return True
    except (ApiError, WireError):
        return False
    return not any(disruption_budget(budget).covers(pod, ()) for budget in budgets.items)


async def send_eviction(client: Client, pod: Pod, job_options: EffectiveOptions, *, delete: bool) -> None:
    """Evict or delete the pod with this UID."""
    meta = pod.metadata
    options: Document = {
        "uid": meta.uid,
        "grace_seconds": job_options.grace_seconds,
        "propagation": job_options.propagation_policy,
    }
    if delete:
        await client.delete(POD, meta.name, meta.namespace, **options)
    else:
        await client.evict(meta.namespace or "", meta.name, **options)


async def dry_run_eviction(client: Client, namespace: str, name: str, uid: str, job_options: EffectiveOptions) -> None:
    """Ask whether the pod with this UID may be evicted now. Also asked before a deletion, which no budget refuses."""
    options: Document = {
        "uid": uid,
        "grace_seconds": job_options.grace_seconds,
        "propagation": job_options.propagation_policy,
    }
    await client.evict(namespace, name, **options, dry_run=True)


def is_server_trouble(error: ApiError) -> bool:
    """Whether an error is about the server or about our credentials, and says nothing about the eviction."""
    if isinstance(error, OutcomeUnknown):
        return error.status.reason != "InternalError"
    return isinstance(error, TooManyRequests | Unauthorized)


def refusal_in(error: ApiError) -> WriteAnswer | None:
    """The refusal by a budget, a webhook or missing permissions in an error. None if it is no certain refusal."""
    if _DENIED in str(error):
        wait = error.retry_after if isinstance(error, TooManyRequests) else None
        return WriteAnswer(False, str(error), wait or RETRY_FORBIDDEN_AFTER)
    if isinstance(error, TooManyRequests):
        details = error.status.details
        causes = [
            cause.message or "" for cause in (details.causes if details else None) or () if cause.reason == _BUDGET
        ]
        if not causes:
            return None  # the server is busy, which says nothing about the pod
        return WriteAnswer(
            False, f"{error}: {'; '.join(causes)}" if any(causes) else str(error), error.retry_after or 0.0
        )
    if isinstance(error, Forbidden | Invalid):
        return WriteAnswer(False, str(error), RETRY_FORBIDDEN_AFTER)
    return None

"""Evicting: how a pod is sent away, only to see whether it would go, or for good, and what an answer to that means.

Goes in: a pod, the terms of its job, or an error that the API server answered with. Comes out: calls, and the certain
no in an error.
"""

from __future__ import annotations

from restow.client.verbs import Client
from restow.eviction.budgets import disruption_budget
from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import Permission
from restow.model.kinds import POD, POD_DISRUPTION_BUDGET
from restow.model.objects import Document, Pod
from restow.model.wire import WireError
from restow.ports import ApiError, Forbidden, Invalid, NotFound, OutcomeUnknown, TooManyRequests, Unauthorized

RETRY_FORBIDDEN_AFTER = 30.0
"""Seconds after which something is tried again that was not allowed."""
_BUDGET = "DisruptionBudget"
_DENIED = "denied the request"
"""Whatever code a webhook answers with, the API server says this."""


async def should_delete(client: Client, pod: Pod, terms: EffectiveOptions) -> bool:
    """Whether a pod is to be deleted, and not evicted. One that a budget covers, or may cover, never is: a deletion
    takes nothing from budgets, and others would be told that they may go as well."""
    if terms.eviction_policy != "Delete":
        return False
    try:
        budgets = await client.list(POD_DISRUPTION_BUDGET, pod.metadata.namespace)
    except NotFound:
        return True
    except (ApiError, WireError):
        return False
    return not any(disruption_budget(one).covers(pod, ()) for one in budgets.items)


async def send_eviction(client: Client, pod: Pod, terms: EffectiveOptions, *, delete: bool) -> None:
    """Evict or delete this very pod."""
    meta = pod.metadata
    how: Document = {"uid": meta.uid, "grace_seconds": terms.grace_seconds, "propagation": terms.propagation_policy}
    if delete:
        await client.delete(POD, meta.name, meta.namespace, **how)
    else:
        await client.evict(meta.namespace or "", meta.name, **how)


async def dry_run_eviction(client: Client, namespace: str, name: str, uid: str, terms: EffectiveOptions) -> None:
    """Whether this very pod may be evicted now. Whoever deletes pods asks it, too: a deletion heeds no budget."""
    how: Document = {"uid": uid, "grace_seconds": terms.grace_seconds, "propagation": terms.propagation_policy}
    await client.evict(namespace, name, **how, dry_run=True)


def is_server_trouble(error: ApiError) -> bool:
    """Whether an error is about the server, or about who asks, and says nothing about what was only tried."""
    if isinstance(error, OutcomeUnknown):
        return error.status.reason != "InternalError"
    return isinstance(error, TooManyRequests | Unauthorized)


def refusal_in(error: ApiError) -> Permission | None:
    """The certain no in an error: a budget, a webhook, or a lack of permission. None if the error says nothing of the
    kind."""
    if _DENIED in str(error):
        wait = error.retry_after if isinstance(error, TooManyRequests) else None
        return Permission(False, str(error), wait or RETRY_FORBIDDEN_AFTER)
    if isinstance(error, TooManyRequests):
        details = error.status.details
        causes = [one.message or "" for one in (details.causes if details else None) or () if one.reason == _BUDGET]
        if not causes:
            return None  # the server is busy, which says nothing about the pod
        return Permission(
            False, f"{error}: {'; '.join(causes)}" if any(causes) else str(error), error.retry_after or 0.0
        )
    if isinstance(error, Forbidden | Invalid):
        return Permission(False, str(error), RETRY_FORBIDDEN_AFTER)
    return None

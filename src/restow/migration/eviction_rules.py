"""Rules about the eviction itself, and the step that sends it.

Goes in: facts about a pod that stays, and everything else is ready. Comes out: the eviction, or the step that holds it
back. The rules are ordered by what they cost: the stop switch and the counts are known, the rate limit hands out turns,
and the API server is asked last.
"""

from __future__ import annotations

from restow.migration.conditions import ConditionUpdate, eviction_repeated_status, with_conditions
from restow.migration.facts import WriteAnswer
from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.history import eviction_intended_at
from restow.migration.steps import (
    RETRY_AFTER,
    Evict,
    ReadLive,
    Step,
    end_dry_run,
    first_step,
    hold_eviction,
    wait_briefly,
)
from restow.model.objects import JobConditionType, JobReason


def evict_pod(facts: FactsBeforeEviction, seat: str) -> Step:
    """Evict the pod, unless something holds evictions back; `seat` says what is kept for its successor."""
    message = f"pod {facts.pod_name} leaves node {facts.pod.spec.node_name}; {seat}"
    # 1. The API server has just refused this very eviction, so it is certain that it will not take effect.
    if facts.refusal is not None:
        return _hold_refused_eviction(facts, facts.refusal, withdraw=True)
    # 2. May it be sent now?
    step = first_step(facts, (_eviction_just_sent, evictions_are_stopped, workload_is_unavailable, _rate_limit_reached))
    step = step or eviction_would_be_refused(facts)
    if step is not None:
        return step
    # 3. Record the intent, with the time, and send it.
    if facts.options.dry_run:
        return end_dry_run(facts, f"{message}: it would be evicted")
    intent = ConditionUpdate(JobConditionType.EVICTION, False, JobReason.EVICTING, message)
    return Evict(
        eviction_repeated_status(with_conditions(facts.job.status, intent, now=facts.now), now=facts.now), facts.pod
    )


def _eviction_just_sent(facts: FactsBeforeEviction) -> Step | None:
    """The watch shows the effect of an eviction a moment later; until then caches are not asked about a second one."""
    return None if facts.is_fresh else wait_briefly(facts, eviction_intended_at(facts.job))


def evictions_are_stopped(facts: FactsBeforeEviction) -> Step | None:
    if facts.stop_reason is None:
        return None
    return hold_eviction(facts, JobReason.STOPPED, facts.stop_reason, retry_at=None)


def workload_is_unavailable(facts: FactsBeforeEviction) -> Step | None:
    """Other replicas of the pod's workload were lost since the job was admitted."""
    message = facts.objections.workload_unavailable
    if message is None:
        return None
    return hold_eviction(facts, JobReason.MAX_UNAVAILABLE_PER_WORKLOAD, message, retry_at=facts.now + RETRY_AFTER)


def _rate_limit_reached(facts: FactsBeforeEviction) -> Step | None:
    limit = facts.rate_limit
    if limit is None or limit.is_allowed:
        return None
    return hold_eviction(facts, JobReason.EVICT_QPS, limit.message, retry_at=facts.now + limit.retry_after)


def eviction_would_be_refused(facts: FactsBeforeEviction) -> Step | None:
    """The API server's answer to a dry run of the eviction, which takes nothing from any budget."""
    if facts.eviction_dry_run is None:
        return ReadLive(dry_run_eviction=True)
    return None if facts.eviction_dry_run.is_allowed else _hold_refused_eviction(facts, facts.eviction_dry_run)


def _hold_refused_eviction(facts: FactsBeforeEviction, refusal: WriteAnswer, *, withdraw: bool = False) -> Step:
    retry_at = facts.now + (refusal.retry_after or RETRY_AFTER)
    return hold_eviction(facts, JobReason.FAILED_EVICT, refusal.message, retry_at=retry_at, withdraw=withdraw)

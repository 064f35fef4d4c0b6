"""Protections: which pods may be evicted at all, and why not.

Goes in: a pod, the configured protections, and what is known around the pod. Comes out: every reason against its
eviction, one sentence each; none means that the pod itself may be evicted. Whether now is the time is for budgets and
limits to say, and whether there is a seat is for the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from restow.eviction.budgets import DISRUPTION, Budget, covered_by_several_budgets
from restow.eviction.costs import EVICTION_COST, NEVER_EVICT, eviction_cost
from restow.model.counted_nouns import counted_noun
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.model.pods import MIRROR, controller_of, is_finished, is_of_daemon_set, is_terminating, scheduler_of
from restow.model.selectors import EVERYTHING, LabelSelector
from restow.model.times import time_of
from restow.model.volumes import (
    READ_WRITE_MANY,
    READ_WRITE_ONCE,
    READ_WRITE_ONCE_POD,
    claims_used,
    class_name,
    is_dynamically_provisioned,
)

SYSTEM_CRITICAL: Final = 2_000_000_000
SOURCE: Final = "kubernetes.io/config.source"
EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


class Protections(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured. By default pods are protected that would not be recreated, or would lose something."""

    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    """Keep pods that use PersistentVolumeClaims."""
    pvc_storage_classes: frozenset[str] = frozenset()
    """With ignore_pvc_pods: only pods with claims of these storage classes; of any class if empty."""
    ignore_pods_without_budget: bool = False
    respect_prefer_no_eviction: bool = False
    """Keep pods with the annotation prefer-no-eviction."""
    priority_threshold: int | None = None
    """Keep pods of this priority and above."""
    priority_threshold_name: str | None = None
    """The same, as the name of a PriorityClass."""
    selector: LabelSelector = EVERYTHING
    node_selector: LabelSelector = EVERYTHING
    namespace_selector: LabelSelector = EVERYTHING
    include_namespaces: frozenset[str] = frozenset()
    """Only pods of these namespaces may be evicted; of any if empty."""
    exclude_namespaces: frozenset[str] = frozenset()
    scheduler_names: frozenset[str] | None = None
    """Only pods of these schedulers may be evicted: other schedulers know nothing of seats. None for any scheduler."""
    min_replicas: int = 0
    min_age: float = 0.0
    """Seconds that a pod must have run for."""


class PodContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is known around a pod."""

    now: float
    replicas: int | None = None
    """How many replicas its workload wants; None for a bare pod."""
    job_failure_by_loss: str = ""
    """Why its Job would fail if the pod were evicted, in a sentence; empty if it would not."""
    waits_for_order: str = ""
    """Why its StatefulSet would not recreate it now, in a sentence; empty if it would."""
    node_named_by_template: str = ""
    """The node that its controller's template names, so that no scheduler is asked; empty if it names none."""
    claims_shared_with: Mapping[str, str] = {}
    """The claims that another pod on its node uses as well, by name; each with the name of such a pod."""
    claims: Mapping[str, PersistentVolumeClaim] = {}
    """The PersistentVolumeClaims of its namespace by name, at least those that it uses."""
    budgets: tuple[Budget, ...] = ()
    """The budgets that cover it."""
    node_labels: Mapping[str, str] = {}
    namespace_labels: Mapping[str, str] = {}
    priority_classes: Mapping[str, int] = {}


def eviction_refusal(pod: Pod, protections: Protections, around: PodContext) -> str | None:
    """The first reason against evicting a pod; None if there is none."""
    return next(eviction_refusals(pod, protections, around), None)


def eviction_refusals(pod: Pod, protections: Protections, around: PodContext) -> Iterator[str]:
    """Every reason against evicting a pod: first the lasting ones, the gravest first; then what speaks against it now;
    last the objects that are not known."""
    for rule in _RULES:
        yield from rule(pod, protections, around)
    if around.waits_for_order:
        yield around.waits_for_order
    yield from _find_missing_objects(pod, protections, around)


def lasting_eviction_refusal(pod: Pod, protections: Protections, around: PodContext) -> str | None:
    """The first reason that holds whatever objects may still become known."""
    return next((reason for rule in _RULES for reason in rule(pod, protections, around)), None)


def missing_objects(pod: Pod, protections: Protections, around: PodContext) -> str | None:
    """The first object that the rules refer to and that is not known; the watch may only not have shown it yet."""
    return next(_find_missing_objects(pod, protections, around), None)


def _find_missing_objects(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    name = options.priority_threshold_name
    if name is not None and name not in around.priority_classes:
        yield f"priorityThreshold names PriorityClass {name}, which does not exist"
    missing = [use.name for use in claims_used(pod) if use.name not in around.claims]
    if missing:
        yield f"its PersistentVolumeClaims are not known: {', '.join(missing)}"


def _kind_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    """Pods that would not be recreated, or that would come back to the same node."""
    annotations = pod.metadata.annotations or {}
    owner = controller_of(pod)
    if MIRROR in annotations:
        yield "it is a mirror pod: its kubelet owns it"
    elif annotations.get(SOURCE, "api") != "api":
        yield f"it is a static pod, from {annotations[SOURCE]}"
    elif owner is not None and is_of_daemon_set(pod):
        yield f"DaemonSet {owner.name} would put it back on the same node"
    elif owner is not None and around.node_named_by_template:
        yield f"{owner.kind} {owner.name} would put it on node {around.node_named_by_template} without a scheduler"
    elif owner is None and not options.evict_all_bare_pods:
        if pod.status.phase != "Failed":
            yield "no controller would recreate it"
        elif not options.evict_failed_bare_pods:
            yield "no controller would recreate it; failed pods may be evicted with evictFailedBarePods"
    if is_terminating(pod):
        yield "it is already terminating"


def _job_backoff_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    if around.job_failure_by_loss:
        yield around.job_failure_by_loss


def _scheduler_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    name = scheduler_of(pod)
    if options.scheduler_names is not None and name not in options.scheduler_names:
        ours = ", ".join(sorted(options.scheduler_names))
        yield f"its scheduler is {name}, schedulerNames has {ours}"


def _annotation_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    """What the pod's own annotations ask for."""
    annotations = pod.metadata.annotations or {}
    if eviction_cost(pod) == NEVER_EVICT:
        yield f"its {EVICTION_COST} is {NEVER_EVICT}, which means never"
    if annotations.get(EVICT) == "false":
        yield f"its annotation {EVICT} is false"
    if options.respect_prefer_no_eviction and PREFER_NO_EVICTION in annotations:
        yield f"it has the annotation {PREFER_NO_EVICTION}"


def _namespace_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    namespace = pod.metadata.namespace or ""
    if options.include_namespaces and namespace not in options.include_namespaces:
        yield f"namespace {namespace} is not among those included: {', '.join(sorted(options.include_namespaces))}"
    if namespace in options.exclude_namespaces:
        yield f"namespace {namespace} is excluded"
    if not options.namespace_selector.matches(around.namespace_labels):
        yield f"the labels of its namespace do not match {options.namespace_selector}"


def _priority_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    priority = pod.spec.priority or 0
    if not options.evict_system_critical_pods and priority >= SYSTEM_CRITICAL:
        yield f"it is critical to the system: its priority is {priority} (evictSystemCriticalPods is false)"
    threshold = options.priority_threshold
    name = options.priority_threshold_name
    if name is not None:
        threshold = around.priority_classes.get(name)
    if threshold is not None and priority >= threshold:
        yield f"its priority {priority} is not below the threshold {threshold}"


def _volume_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    if not options.evict_local_storage_pods:
        local = [
            volume.name
            for volume in pod.spec.volumes or ()
            if volume.host_path is not None or volume.empty_dir is not None
        ]
        if local:
            yield f"it has local storage: {', '.join(local)} (evictLocalStoragePods is false)"
    used = list(claims_used(pod))
    claims = {use.name: around.claims[use.name] for use in used if use.name in around.claims}
    # Generic ephemeral claims that are bound to an existing volume: the successor's claim would need another such one.
    bound = [
        use.name
        for use in used
        if use.generated and use.name in claims and not is_dynamically_provisioned(claims[use.name])
    ]
    exclusive = [name for name, claim in claims.items() if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ())]
    if exclusive:
        yield f"only one pod at a time may use {', '.join(exclusive)} (ReadWriteOncePod), so no seat can be kept for it"
    for name, other in around.claims_shared_with.items():
        if name in claims and _is_single_node_claim(claims[name]) and not is_finished(pod):
            why = "only one node at a time may (ReadWriteOnce), so its successor on another node would wait for it"
            yield f"pod {other} on its node uses {name} as well, and {why}"
    if bound:
        names = ", ".join(bound)
        yield f"the volume of {names} was not provisioned for it, and no seat can hold another one like it"
    if options.ignore_pvc_pods:
        classes = options.pvc_storage_classes
        kept = [name for name, claim in claims.items() if not classes or class_name(claim) in classes]
        if kept:
            yield f"it uses the claims {', '.join(kept)}, and ignorePvcPods is set"


def _is_single_node_claim(claim: PersistentVolumeClaim) -> bool:
    modes = claim.spec.access_modes or ()
    return READ_WRITE_ONCE in modes and READ_WRITE_MANY not in modes


def _device_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    claims = [claim.name for claim in pod.spec.resource_claims or ()]
    if claims:
        yield f"it uses dynamic resource allocation: {', '.join(claims)}"


def _selector_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    if not options.selector.matches(pod.metadata.labels):
        yield f"its labels do not match {options.selector}"
    if not options.node_selector.matches(around.node_labels):
        yield f"the labels of its node do not match {options.node_selector}"


def _replica_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    if around.replicas is not None and around.replicas < options.min_replicas:
        yield f"its workload has {counted_noun(around.replicas, 'replica')}, and minReplicas is {options.min_replicas}"


def _age_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    if not options.min_age:
        return
    started = time_of(pod.status.start_time)
    if started is None and pod.status.phase != "Running":
        yield "it has not started"
    elif started is not None and around.now - started < options.min_age:
        yield f"it started {around.now - started:.0f}s ago, and must be {options.min_age:.0f}s old"


def _budget_rule(pod: Pod, options: Protections, around: PodContext) -> Iterator[str]:
    problem = covered_by_several_budgets(around.budgets)
    if problem:
        yield problem
    if options.ignore_pods_without_budget and not any(budget.kind == DISRUPTION for budget in around.budgets):
        yield "no PodDisruptionBudget covers it"


_Rule = Callable[[Pod, Protections, PodContext], Iterator[str]]
_RULES: tuple[_Rule, ...] = (
    _kind_rule,
    _job_backoff_rule,
    _annotation_rule,
    _scheduler_rule,
    _namespace_rule,
    _priority_rule,
    _volume_rule,
    _device_rule,
    _selector_rule,
    _replica_rule,
    _age_rule,
    _budget_rule,
)

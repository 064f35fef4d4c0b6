"""Budgets: how many pods may be disrupted, by PodDisruptionBudgets and OpenKruise's PodUnavailableBudgets.

Goes in: the budgets of a cluster. Comes out: the budgets that cover a pod, whether evicting it takes one from them, and
how many they have left. The rules are those of the API that checks them: policy/v1 Eviction, and Kruise's webhook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from restow.model.objects import OwnerReference, Pod, PodDisruptionBudget, PodUnavailableBudget, SelectorSpec
from restow.model.pods import is_finished, is_serving, is_terminating
from restow.model.selectors import NOTHING, LabelSelector, SelectorError, label_selector

NO_PROTECTION: Final = "pub.kruise.io/no-protect"
"""On a pod, "true": PodUnavailableBudgets do not cover it."""
DISRUPTION: Final = "PodDisruptionBudget"
UNAVAILABLE: Final = "PodUnavailableBudget"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One budget of either kind, as its status is now."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector
    target_workload: tuple[str, str] | None
    """(kind, name) of the workload it is for, instead of a selector."""
    allowed: int
    """How many more pods may be disrupted now."""
    healthy: int
    desired: int
    is_status_current: bool
    """Whether its status is that of its current spec."""
    unready_pods_are_free: bool
    disrupted: frozenset[str]
    """Names of pods that `allowed` already leaves out: they are being evicted."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name

    @property
    def left(self) -> int:
        """How many pods may be disrupted; 0 while the status is out of date, as in the eviction API."""
        return max(0, self.allowed) if self.is_status_current else 0

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def covers(self, pod: Pod, owners: Iterable[OwnerReference]) -> bool:
        """Whether the budget covers a pod of its own namespace with these owners."""
        if self.kind == UNAVAILABLE and (pod.metadata.annotations or {}).get(NO_PROTECTION) == "true":
            return False
        if self.target_workload is not None:
            return any((owner.kind, owner.name) == self.target_workload for owner in owners)
        return self.selector.matches(pod.metadata.labels)

    def is_charged_for(self, pod: Pod) -> bool:
        """Whether evicting the pod now would take one from the budget."""
        if is_finished(pod) or is_terminating(pod) or pod.status.phase == "Pending":
            return False
        if pod.metadata.name in self.disrupted:
            return False
        return is_serving(pod) or not self.unready_pods_are_free

    def shortage(self, admitted: int) -> str:
        """Why one more pod may not be disrupted, with the numbers; `admitted` pods are about to be evicted."""
        if not self.is_status_current:
            return f"{self}: its status is not up to date with its spec"
        numbers = f"{self.healthy} of {self.desired} desired pods are healthy, {self.allowed} may be disrupted"
        return f"{self}: {numbers}" + (f", {admitted} are about to be" if admitted else "")


def disruption_budget(budget: PodDisruptionBudget) -> Budget:
    status, meta = budget.status, budget.metadata
    enough = status.current_healthy >= status.desired_healthy > 0
    return Budget(
        kind=DISRUPTION,
        namespace=meta.namespace or "",
        name=meta.name,
        selector=_parse_selector(budget.spec.selector),
        target_workload=None,
        allowed=status.disruptions_allowed,
        healthy=status.current_healthy,
        desired=status.desired_healthy,
        is_status_current=(status.observed_generation or 0) >= (meta.generation or 0),
        unready_pods_are_free=enough or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        disrupted=frozenset(status.disrupted_pods or ()),
    )


def unavailable_budget(budget: PodUnavailableBudget) -> Budget:
    status, target, meta = budget.status, budget.spec.target_ref, budget.metadata
    return Budget(
        kind=UNAVAILABLE,
        namespace=meta.namespace or "",
        name=meta.name,
        selector=_parse_selector(budget.spec.selector) if target is None else NOTHING,
        target_workload=(target.kind or "", target.name or "") if target else None,
        allowed=status.unavailable_allowed,
        healthy=status.current_available,
        desired=status.desired_available,
        is_status_current=(status.observed_generation or 0) >= (meta.generation or 0),
        unready_pods_are_free=True,
        disrupted=frozenset({*(status.disrupted_pods or ()), *(status.unavailable_pods or ())}),
    )


def _parse_selector(written: SelectorSpec | None) -> LabelSelector:
    """A missing or malformed selector selects nothing; an empty one selects everything."""
    try:
        return label_selector(written)
    except SelectorError:
        return NOTHING


class Budgets:
    """The budgets of a cluster, found by the labels of a pod without looking at each."""

    def __init__(self) -> None:
        self._budgets: dict[tuple[str, str, str], Budget] = {}
        self._by_label: dict[tuple[str, str, str], dict[tuple[str, str, str], Budget]] = {}
        self._others: dict[str, dict[tuple[str, str, str], Budget]] = {}

    def put(self, written: PodDisruptionBudget | PodUnavailableBudget) -> None:
        read = disruption_budget(written) if isinstance(written, PodDisruptionBudget) else unavailable_budget(written)
        self.drop(*read.key)
        self._budgets[read.key] = read
        self._budgets_under_same_label(read)[read.key] = read

    def drop(self, kind: str, namespace: str, name: str) -> None:
        old = self._budgets.pop((kind, namespace, name), None)
        if old is not None:
            del self._budgets_under_same_label(old)[old.key]

    def covering(self, pod: Pod, owners: Iterable[OwnerReference]) -> list[Budget]:
        """The budgets that cover a pod with these owners, ordered by kind and name."""
        namespace = pod.metadata.namespace or ""
        above = tuple(owners)
        budgets = [budget for budget in self._candidates(namespace, pod) if budget.covers(pod, above)]
        return sorted(budgets, key=lambda budget: budget.key)

    def _candidates(self, namespace: str, pod: Pod) -> Iterator[Budget]:
        yield from self._others.get(namespace, {}).values()
        for key, value in (pod.metadata.labels or {}).items():
            yield from self._by_label.get((namespace, key, value), {}).values()

    def _budgets_under_same_label(self, budget: Budget) -> dict[tuple[str, str, str], Budget]:
        """Where a budget is filed: under a label that its selector requires, if there is one, else by namespace."""
        for need in budget.selector.requirements:
            if need.operator == "In" and len(need.values) == 1:
                return self._by_label.setdefault((budget.namespace, need.key, need.values[0]), {})
        return self._others.setdefault(budget.namespace, {})


def covered_by_several_budgets(covering: Iterable[Budget]) -> str | None:
    """Why a pod can never be evicted: the eviction API refuses a pod that several PodDisruptionBudgets cover."""
    names = [budget.name for budget in covering if budget.kind == DISRUPTION]
    if len(names) < 2:
        return None
    return f"{len(names)} PodDisruptionBudgets cover it ({', '.join(names)}), and the eviction API accepts at most one"


def exhausted_budget(covering: Iterable[Budget], pod: Pod) -> str | None:
    """Why a budget does not allow a pod to be evicted now, if no other eviction is under way."""
    exhausted = (budget for budget in covering if budget.is_charged_for(pod) and not budget.left)
    return next((budget.shortage(0) for budget in exhausted), None)

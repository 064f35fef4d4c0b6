"""Which pods may move, why others may not, and how many may move at the same time.

Goes in: the configured protections, and the budgets and workloads of a cluster. Comes out: for a pod, the reason why it
may not move, or the limits that it counts against while it moves; for a node, the candidates (its pods that may move)
and a refusal for each other pod. Pods of other schedulers are counted in one refusal: their scheduler would ignore the
seat that Restow reserves for the successor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from restow.eviction.budgets import Budget, Budgets, exhausted_budget
from restow.eviction.protections import PodContext, Protections, eviction_refusals
from restow.eviction.shared_claims import SharedClaims
from restow.eviction.workloads import Workloads
from restow.model.cluster import Occupant
from restow.model.counted_nouns import counted_noun
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.model.pods import namespaced_name, scheduler_of, stays_with_node
from restow.model.reservations.matching import requested_reservation, why_not_moved_from_named
from restow.model.snapshot import Snapshot
from restow.planning.plan import PlanRefusal
from restow.planning.plan_request import DisruptionLimit, EvictionRules
from restow.scheduling.jobs import why_successor_unschedulable
from restow.scheduling.pod_group_cache import PodGroupCache

WorkloadLimit = Callable[[int, bool], int | None]
"""(replicas, whether a budget covers them) to how many pods of a workload may move at the same time; None for any
number."""


class ConfiguredEvictionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of eviction by the configuration and the state of a cluster."""

    snapshot: Snapshot
    pod_groups: PodGroupCache
    now: float
    protections: Protections = Protections()
    budgets: Budgets = msgspec.field(default_factory=Budgets)
    workloads: Workloads = msgspec.field(default_factory=Workloads)
    sharing: SharedClaims = msgspec.field(default_factory=SharedClaims)
    claims: Mapping[str, Mapping[str, PersistentVolumeClaim]] = {}
    """By namespace and name."""
    priority_classes: Mapping[str, int] = {}
    workload_limit: WorkloadLimit = lambda replicas, has_budget: None

    def is_ours(self, pod: Pod) -> bool:
        names = self.protections.scheduler_names
        return names is None or scheduler_of(pod) in names

    def refusal_reason(self, pod: Pod) -> str:
        return next(self.refusal_reasons(pod), "")

    def refusal_reasons(self, pod: Pod) -> Iterator[str]:
        """Every reason why the pod may not move, those that last longest first."""
        context = self.eviction_context(pod)
        yield from eviction_refusals(pod, self.protections, context)
        if reason := self._why_successor_unschedulable(pod):
            yield reason
        if name := requested_reservation(pod, self.snapshot.owner_chains.group_of):
            yield why_not_moved_from_named(name)
        if reason := exhausted_budget(context.budgets, pod):
            yield reason

    def _why_successor_unschedulable(self, pod: Pod) -> str | None:
        gang = self.pod_groups.gang_of(pod)
        return (
            why_successor_unschedulable(pod, self.pod_groups.group(gang), self.pod_groups.readiness(gang))
            if gang is not None
            else None
        )

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        budgets = self._covering(pod)
        limits = [DisruptionLimit(str(budget), budget.left) for budget in budgets if budget.is_charged_for(pod)]
        workload = self.workloads.workload_of(pod)
        if workload is not None:
            max_moving = self.workload_limit(workload.replicas, bool(budgets))
            # At least one: a limit of 0 would drop the move, and limits only shape waves.
            limits += [DisruptionLimit(str(workload), max(1, max_moving))] if max_moving is not None else []
        return limits

    def _covering(self, pod: Pod) -> list[Budget]:
        return self.budgets.covering(pod, self.workloads.owner_chain(pod))

    def eviction_context(self, pod: Pod) -> PodContext:
        """Everything about the surroundings of a pod that the rules of eviction read."""
        workload = self.workloads.workload_of(pod)
        node = self.snapshot.node(pod.spec.node_name or "")
        return PodContext(
            now=self.now,
            replicas=workload.replicas if workload else None,
            job_failure_by_loss=self.workloads.job_failure_by_loss(pod),
            waits_for_order=self.workloads.waits_for_order(pod),
            node_named_by_template=self.workloads.node_named_by_template(pod),
            claims_shared_with=self.sharing.shared_with(pod),
            claims=self.claims.get(pod.metadata.namespace or "", {}),
            budgets=tuple(self._covering(pod)),
            node_labels=(node.metadata.labels or {}) if node else {},
            namespace_labels=self.snapshot.namespaces.labels(pod.metadata.namespace or ""),
            priority_classes=self.priority_classes,
        )


class NodeCandidates(msgspec.Struct, frozen=True):
    """The pods on a node, except those that stay with it (static and DaemonSet pods), by whether they may move."""

    candidates: tuple[Occupant, ...]
    """The pods that may move."""
    refusals: tuple[PlanRefusal, ...]
    foreign_count: int
    """How many pods belong to other schedulers."""
    arriving_count: int
    """How many pods are not bound yet: assumed by the scheduler, or the successors of planned moves."""

    @property
    def staying_count(self) -> int:
        """How many pods do not move."""
        return len(self.refusals) + self.foreign_count + self.arriving_count


def candidates_on_node(snapshot: Snapshot, node: str, rules: EvictionRules) -> NodeCandidates:
    """The pods on a node, except static and DaemonSet pods. Seats that reservations hold on it are refusals, too."""
    candidates: list[Occupant] = []
    refusals: list[PlanRefusal] = []
    foreign = arriving = 0
    for occupant in snapshot.occupants(node):
        if stays_with_node(occupant.pod):
            continue
        if occupant.ledger == "reserved":
            refusals.append(pod_refusal(occupant.pod, "seats of reservations are not moved"))
        elif occupant.assumed_at is not None:
            arriving += 1
        elif not rules.is_ours(occupant.pod):
            foreign += 1
        elif reason := rules.refusal_reason(occupant.pod):
            refusals.append(pod_refusal(occupant.pod, reason))
        else:
            candidates.append(occupant)
    return NodeCandidates(tuple(candidates), tuple(refusals), foreign, arriving)


def pod_refusal(pod: Pod, reason: str) -> PlanRefusal:
    namespace, name = namespaced_name(pod)
    return PlanRefusal(namespace=namespace, pod=name, reason=reason)


def general_refusal(reason: str) -> PlanRefusal:
    """A sentence that is not about a single pod."""
    return PlanRefusal(namespace="", pod="", reason=reason)


def foreign_pod_refusals(snapshot: Snapshot, rules: EvictionRules) -> Iterator[PlanRefusal]:
    """One refusal for all pods of other schedulers, static and DaemonSet pods not counted."""
    known = [occupant.pod for occupant in snapshot.pods.known.values()]
    foreign = [pod for pod in known if not rules.is_ours(pod) and not stays_with_node(pod)]
    if foreign:
        names = ", ".join(sorted({scheduler_of(pod) for pod in foreign}))
        advice = "list the name under scheduler.schedulerNames in --config to include them"
        yield general_refusal(f"{counted_noun(len(foreign), 'pod', 'belong')} to other schedulers ({names}): {advice}")

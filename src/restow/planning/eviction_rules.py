"""What may move, why not, and how many at once.

Goes in: the configured protections, the budgets and workloads of a cluster. Comes out: for a pod the reason against
moving it, or what it draws on while it moves; for nodes, who of their guests may move and a refusal for each of the
others. Pods of other schedulers are counted in one refusal, because nobody would take the seats kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from restow.eviction.budgets import Budget, Budgets, exhausted_budget
from restow.eviction.protections import Protections, PodContext, eviction_refusals
from restow.eviction.shared_claims import SharedClaims
from restow.eviction.workloads import Workloads
from restow.model.cluster import Occupant
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.model.pods import full_name, scheduler_of, stays_with_node
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.planning.plan import Refusal
from restow.planning.plan_request import DisruptionLimit, EvictionRules
from restow.scheduling.jobs import why_successor_unschedulable
from restow.model.reservations.matching import why_not_moved_from_named, requested_reservation
from restow.scheduling.pod_group_cache import PodGroupCache

WorkloadLimit = Callable[[int, bool], int | None]
"""How many pods of a workload may be on the move at once: of so many replicas, with a budget or without; None for any
number."""


class ConfiguredEvictionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of eviction, read off a cluster."""

    snapshot: Snapshot
    pod_groups: PodGroupCache
    """The gangs that pods belong to."""
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
        """Every reason against moving it, the gravest first."""
        around = self.eviction_context(pod)
        yield from eviction_refusals(pod, self.protections, around)
        if lacking := self._stranded(pod):
            yield lacking
        if name := requested_reservation(pod, self.snapshot.owner_chains.group_of):
            yield why_not_moved_from_named(name)
        if short := exhausted_budget(around.budgets, pod):
            yield short

    def _stranded(self, pod: Pod) -> str | None:
        gang = self.pod_groups.gang_of(pod)
        return why_successor_unschedulable(pod, self.pod_groups.group(gang), self.pod_groups.readiness(gang)) if gang is not None else None

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        covering = self._covering(pod)
        found = [DisruptionLimit(str(budget), budget.left) for budget in covering if budget.is_charged_for(pod)]
        workload = self.workloads.workload_of(pod)
        if workload is not None:
            most = self.workload_limit(workload.replicas, bool(covering))
            found += [DisruptionLimit(str(workload), max(1, most))] if most is not None else []
        return found

    def _covering(self, pod: Pod) -> list[Budget]:
        return self.budgets.covering(pod, self.workloads.owner_chain(pod))

    def eviction_context(self, pod: Pod) -> PodContext:
        """What is known around a pod."""
        workload = self.workloads.workload_of(pod)
        node = self.snapshot.node(pod.spec.node_name or "")
        return PodContext(
            now=self.now,
            replicas=workload.replicas if workload else None,
            end_by_loss=self.workloads.end_by_loss(pod),
            out_of_order=self.workloads.out_of_order(pod),
            node_named_by_template=self.workloads.node_named_by_template(pod),
            claims_shared_with=self.sharing.shared_with(pod),
            claims=self.claims.get(pod.metadata.namespace or "", {}),
            budgets=tuple(self._covering(pod)),
            node_labels=(node.metadata.labels or {}) if node else {},
            namespace_labels=self.snapshot.namespaces.labels(pod.metadata.namespace or ""),
            priority_classes=self.priority_classes,
        )


class NodeCandidates(msgspec.Struct, frozen=True):
    """Who of a node's guests may move."""

    candidates: tuple[Occupant, ...]
    refusals: tuple[Refusal, ...]
    foreign_count: int
    """How many belong to schedulers that are not ours."""
    arriving_count: int
    """How many are not there yet: assumed by the scheduler, or held by moves already planned."""

    @property
    def staying_count(self) -> int:
        return len(self.refusals) + self.foreign_count + self.arriving_count


def candidates_on_node(snapshot: Snapshot, node: str, mobility: EvictionRules) -> NodeCandidates:
    """The pods on a node that do not belong to it; seats that reservations hold there are refusals, too."""
    movable: list[Occupant] = []
    refusals: list[Refusal] = []
    foreign = coming = 0
    for one in snapshot.occupants(node):
        if stays_with_node(one.pod):
            continue
        if one.ledger == "reserved":
            refusals.append(pod_refusal(one.pod, "it is the seat of a reservation"))
        elif one.assumed_at is not None:
            coming += 1
        elif not mobility.is_ours(one.pod):
            foreign += 1
        elif reason := mobility.refusal_reason(one.pod):
            refusals.append(pod_refusal(one.pod, reason))
        else:
            movable.append(one)
    return NodeCandidates(tuple(movable), tuple(refusals), foreign, coming)


def pod_refusal(pod: Pod, reason: str) -> Refusal:
    namespace, name = full_name(pod)
    return Refusal(namespace=namespace, pod=name, reason=reason)


def general_refusal(reason: str) -> Refusal:
    """A sentence that is about no single pod."""
    return Refusal(namespace="", pod="", reason=reason)


def foreign_pod_refusals(snapshot: Snapshot, mobility: EvictionRules) -> Iterator[Refusal]:
    """One refusal for all pods of other schedulers, those that belong to their node apart."""
    known = [one.pod for one in snapshot.pods.known.values()]
    foreign = [pod for pod in known if not mobility.is_ours(pod) and not stays_with_node(pod)]
    if foreign:
        names = ", ".join(sorted({scheduler_of(pod) for pod in foreign}))
        advice = "list the name under scheduler.schedulerNames in --config to include them"
        yield general_refusal(f"{number_of(len(foreign), 'pod', 'belong')} to other schedulers ({names}): {advice}")

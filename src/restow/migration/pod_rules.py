"""Rules about the pod and its successor: may the pod be moved at all, and would the successor be scheduled now?

Goes in: facts about a pod that stays. Comes out: the step that ends the job or holds the eviction back; None while the
rule has nothing against the move.
"""

from __future__ import annotations

from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.reservation import target_node
from restow.migration.steps import RETRY_AFTER, Step, forbid_move, hold_eviction
from restow.model.objects import JobMode, JobReason
from restow.model.pods import is_finished, scheduler_of
from restow.model.reservations.matching import why_not_moved_from_named


def pod_cannot_move(facts: FactsBeforeEviction) -> Step | None:
    """What the pod's own state says against a move; its protections are for arbitration to check."""
    pod = facts.pod
    if facts.conflicting_job is not None:
        return forbid_move(facts, f"job {facts.conflicting_job} moves it already")
    if not pod.spec.node_name:
        return forbid_move(facts, "it is not on a node yet")
    if facts.options.mode == JobMode.EVICT_DIRECTLY:
        return None
    if is_finished(pod):
        return forbid_move(facts, f"it has finished ({pod.status.phase}) and needs no seat")
    if not facts.owner_chain:
        hint = "mode EvictDirectly needs no successor, where evictAllBarePods is set"
        return forbid_move(facts, f"no controller would create a successor for its seat; {hint}")
    if target_node(facts.job) == pod.spec.node_name:
        return forbid_move(facts, f"it is already on its target node {pod.spec.node_name}")
    return successor_would_not_be_ours(facts) or successor_asks_for_another_reservation(facts)


def pod_is_protected(facts: FactsBeforeEviction) -> Step | None:
    """Asked again after admission: the pod, its owners or the configuration may have changed since."""
    return forbid_move(facts, facts.objections.forbidden) if facts.objections.forbidden else None


def protections_are_unknown(facts: FactsBeforeEviction) -> Step | None:
    """An object that the protections refer to, such as a claim or a priority class, has not been seen yet."""
    missing = facts.objections.missing_information
    if missing is None:
        return None
    return hold_eviction(facts, JobReason.NEWS, f"waits for information: {missing}", retry_at=facts.now + RETRY_AFTER)


def successor_would_not_be_ours(facts: FactsBeforeEviction) -> Step | None:
    """The controller's template was changed, so that the successor is for another scheduler, or not yet for any."""
    pod, successor = facts.possible_successors[0], facts.possible_successors[-1]
    names, cause = facts.options.scheduler_names, "by the current template of its controller"
    if names is not None and scheduler_of(successor) != scheduler_of(pod) and scheduler_of(successor) not in names:
        return forbid_move(facts, f"its successor would have schedulerName {scheduler_of(successor)}, {cause}")
    if successor.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in successor.spec.scheduling_gates)
        return forbid_move(facts, f"its successor would wait for scheduling gates ({gates}), {cause}")
    return None


def successor_asks_for_another_reservation(facts: FactsBeforeEviction) -> Step | None:
    """A pod that names a reservation takes a seat of that one only: a seat of another would stay empty."""
    named = facts.named_reservation
    used = facts.reservation_reference.name if facts.reservation_reference else None
    return forbid_move(facts, why_not_moved_from_named(named)) if named and named != used else None


def gang_would_not_be_scheduled(facts: FactsBeforeEviction) -> Step | None:
    """Other members of the successor's gang are missing; they may come, or come back."""
    if facts.gang_problem is None:
        return None
    return hold_eviction(facts, JobReason.GANG, facts.gang_problem, retry_at=facts.now + RETRY_AFTER)


def successor_waits_for_order(facts: FactsBeforeEviction) -> Step | None:
    """The StatefulSet would not create the successor before pods of lower ordinals are Ready."""
    order = facts.objections.waits_for_order
    if order is None:
        return None
    return hold_eviction(facts, JobReason.ORDER, order, retry_at=facts.now + RETRY_AFTER)


MOVE_RULES = (
    pod_is_protected,
    protections_are_unknown,
    successor_would_not_be_ours,
    successor_asks_for_another_reservation,
    gang_would_not_be_scheduled,
    successor_waits_for_order,
)
"""What is checked at every step of an admitted job that moves a pod to a seat."""

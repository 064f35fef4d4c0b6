"""Why one pod is where it is: which nodes refuse it, why it is pending, and what keeps it from being moved.

Goes in: an `OfflineCluster` and one of its pods. Comes out: an `Explanation`, in the same sentences that the pod's
condition and its Events have in a live cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from restow.model.counted_nouns import counted_noun
from restow.model.objects import Pod
from restow.model.pods import namespaced_name, scheduler_of
from restow.model.reservations.matching import requested_reservation
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import Profile
from restow.scheduling.schedule_result import Diagnosis
from restow.snapshots.offline import (
    OfflineCluster,
    OfflineDecisions,
    PlanningConfiguration,
    decide_session,
    offline_eviction_rules,
)


class NodeRefusal(msgspec.Struct, frozen=True):
    """A reason, the plugin that gives it, and the nodes that are refused for it."""

    plugin: str
    reason: str
    nodes: list[str]


class ReservedNode(msgspec.Struct, frozen=True):
    """A node that would take the pod if these reservations held no seats there."""

    node: str
    reservations: list[str]


class Explanation(msgspec.Struct, frozen=True):
    """One pod: its node, the other nodes it could go to, and what keeps it from the rest and from being moved."""

    namespace: str
    pod: str
    node: str | None
    message: str
    feasible: list[str]
    """The nodes that would take the pod. Empty for a pending pod that requests a reservation by name: it only goes to a
    seat of that reservation."""
    refusals: list[NodeRefusal]
    movable: bool | None
    """Whether the pod may leave its node and another node could take it; None for a pending pod."""
    obstacles: list[str]
    """Every reason why the pod may not leave its node."""
    held: list[ReservedNode]


def explain_pod(
    cluster: OfflineCluster, profile: Profile, configuration: PlanningConfiguration, pod: Pod, now: float
) -> Explanation:
    """Ask all nodes about a pod. The pod of a node is taken off it for the question. Raises WireError for a wrong
    configuration."""
    snapshot, node = cluster.snapshot, pod.spec.node_name or None
    obstacles = list(offline_eviction_rules(cluster, configuration, now).refusal_reasons(pod)) if node else []
    mark = snapshot.mark()
    if node:
        snapshot.remove_pod(pod)
    unbound = replace(pod, spec=replace(pod.spec, node_name=None))
    diagnosis = profile.engine.diagnose(Cycle(unbound, snapshot, now))
    refusals = _refusals_by_reason(diagnosis, snapshot)
    reserved = _nodes_without_reservations(profile, unbound, snapshot, frozenset(diagnosis.feasible), now)
    snapshot.undo_to(mark)
    if node:
        movable: bool | None = not obstacles and any(other != node for other in diagnosis.feasible)
        message = _message_of_bound_pod(node, diagnosis, obstacles)
    else:
        movable, message = None, _message_of_pending_pod(cluster, profile, pod, diagnosis, now)
    feasible = list(diagnosis.feasible) if node or not _requested_reservation(cluster, pod) else []
    return Explanation(*namespaced_name(pod), node, message, feasible, refusals, movable, obstacles, reserved)


def _requested_reservation(cluster: OfflineCluster, pod: Pod) -> str | None:
    """The reservation that a pod requests by name: it takes no seats of others."""
    return requested_reservation(pod, cluster.snapshot.owner_chains.group_of)


def _refusals_by_reason(diagnosis: Diagnosis, snapshot: Snapshot) -> list[NodeRefusal]:
    nodes: dict[tuple[str, str], set[str]] = {}
    for plugin, refusals in diagnosis.refusals.items():
        for refusal in refusals:
            names = (snapshot.rows.name(row) or "" for row in refusal.rows.nonzero()[0].tolist())
            nodes.setdefault((plugin, refusal.reason), set()).update(names)
    return [NodeRefusal(plugin, reason, sorted(names)) for (plugin, reason), names in nodes.items()]


def _nodes_without_reservations(
    profile: Profile, pod: Pod, snapshot: Snapshot, feasible: frozenset[str], now: float
) -> list[ReservedNode]:
    """The nodes that would take the pod if no reservation held seats. Removes all held seats from the snapshot: the
    caller has to undo that."""
    reservations: dict[str, set[str]] = {}
    for name in snapshot.reservations.reserved_pods.names():
        if seat := snapshot.reservations.seat(name):
            reservations.setdefault(seat.node, set()).add(f"{name.namespace}/{name.reservation}")
            snapshot.reservations.states.vacate(name)
    if not reservations:
        return []
    diagnosis = profile.engine.diagnose(Cycle(pod, snapshot, now))
    return [
        ReservedNode(node, sorted(reservations[node]))
        for node in diagnosis.feasible
        if node in reservations and node not in feasible
    ]


def _message_of_bound_pod(node: str, diagnosis: Diagnosis, obstacles: Sequence[str]) -> str:
    others = sum(other != node for other in diagnosis.feasible)
    if not others and not obstacles:
        return f"runs on {node}; movable, but no other node fits"
    verdict = f"it may not be moved: {'; '.join(obstacles)}" if obstacles else "it may be moved"
    return f"runs on {node}; {counted_noun(others, 'other node')} could take it; {verdict}"


def _message_of_pending_pod(
    cluster: OfflineCluster, profile: Profile, pod: Pod, diagnosis: Diagnosis, now: float
) -> str:
    """Why a pod is pending, or where it would go, and why it takes no seat where there are seats for it."""
    fits = f"{counted_noun(len(diagnosis.feasible), 'node')} could take it" if diagnosis.feasible else diagnosis.message
    scheduler_name = scheduler_of(pod)
    if scheduler_name not in profile.scheduler_names:
        return f"is pending; {fits.removesuffix('.')}; it belongs to the scheduler {scheduler_name!r}"
    decisions, key = _simulated_session(cluster, profile, now), namespaced_name(pod)
    schedule, requested = decisions.schedule, _requested_reservation(cluster, pod)
    refusals = (refusal.message for refusal in schedule.unschedulable if (refusal.namespace, refusal.pod) == key)
    nodes = (placed.node for placed in schedule.placements if (placed.namespace, placed.pod) == key)
    refusal, node = next(refusals, None), next(nodes, None)
    if refusal is not None:
        condition = "without asking for it by name" if requested else "alone"
        verdict = refusal + (f"; {condition}, {fits}" if diagnosis.feasible else "")
    elif node is None:
        verdict = fits
    else:
        verdict = f"it would go to {node}" + (f", in a seat of reservation {requested}" if requested else f"; {fits}")
    events = [f"{event.reason}: {event.message}" for event in decisions.events.get(key, ()) if event.message != refusal]
    return "; ".join(["is pending", verdict.removesuffix(".") if events else verdict, *events])


def _simulated_session(cluster: OfflineCluster, profile: Profile, now: float) -> OfflineDecisions:
    """What a session over all pending pods decides. The cluster stays as it is."""
    mark = cluster.snapshot.mark()
    try:
        return decide_session(cluster, profile, now)
    finally:
        # The snapshot has an undo log, the PodGroup cache has none: it forgets the assumed pods one by one.
        cluster.snapshot.undo_to(mark)
        for pod in cluster.pending_pods():
            cluster.pod_groups.forget(pod)

"""Why one pod is where it is: what every node says to it, why it waits, and what keeps it from moving.

Goes in: a cluster that was written down, and a pod of it. Comes out: an `Explanation`, in the sentences that the pod's
condition and its Events have.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restow.model.objects import Pod
from restow.model.pods import full_name, scheduler_of
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import Profile
from restow.model.reservations.matching import requested_reservation
from restow.scheduling.schedule_result import Diagnosis
from restow.snapshots.offline import (
    ConfigurationSections,
    OfflineCluster,
    SessionDecisions,
    decide_session,
    offline_movability,
)


class NodeRefusal(msgspec.Struct, frozen=True):
    """A reason, whose it is, and the nodes it keeps the pod from."""

    plugin: str
    reason: str
    nodes: list[str]


class ReservedNode(msgspec.Struct, frozen=True):
    """A node that would take the pod if its reservations held nothing there."""

    node: str
    reservations: list[str]


class Explanation(msgspec.Struct, frozen=True):
    """One pod: where it is, where else it could go, what keeps it from the other nodes, and what from moving at all."""

    namespace: str
    pod: str
    node: str | None
    message: str
    feasible: list[str]
    """The nodes that would take it; none of a pending one that goes only where a reservation it named has a seat."""
    refusals: list[NodeRefusal]
    movable: bool | None
    """Whether it may leave its node and another could take it; None for a pod that has none."""
    obstacles: list[str]
    """Every reason why it may not leave its node."""
    held: list[ReservedNode]


def explain(
    cluster: OfflineCluster, profile: Profile, sections: ConfigurationSections, pod: Pod, now: float
) -> Explanation:
    """What every node says to this pod; a pod that is placed is taken off its node for the question. Raises WireError
    for a wrong configuration."""
    snapshot, node = cluster.snapshot, pod.spec.node_name or None
    obstacles = list(offline_movability(cluster, sections, now).refusal_reasons(pod)) if node else []
    mark = snapshot.mark()
    if node:
        snapshot.remove_pod(pod)
    loose = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))
    survey = profile.engine.diagnose(Cycle(loose, snapshot, now))
    refused = _by_reason(survey, snapshot)
    held = _held_there(profile, loose, snapshot, frozenset(survey.feasible), now)
    snapshot.undo_to(mark)
    movable = not obstacles and any(one != node for one in survey.feasible) if node else None
    message = _standing(node, survey, obstacles) if node else _waiting(cluster, profile, pod, survey, now)
    feasible = list(survey.feasible) if node or not _reservation_of(cluster, pod) else []
    return Explanation(*full_name(pod), node, message, feasible, refused, movable, obstacles, held)


def _reservation_of(cluster: OfflineCluster, pod: Pod) -> str | None:
    """The only reservation whose seats a pod takes, if it has named one."""
    return requested_reservation(pod, cluster.snapshot.owner_chains.group_of)


def _by_reason(survey: Diagnosis, snapshot: Snapshot) -> list[NodeRefusal]:
    nodes: dict[tuple[str, str], set[str]] = {}
    for plugin, refusals in survey.refusals.items():
        for one in refusals:
            names = (snapshot.rows.name(row) or "" for row in one.rows.nonzero()[0].tolist())
            nodes.setdefault((plugin, one.reason), set()).update(names)
    return [NodeRefusal(plugin, reason, sorted(names)) for (plugin, reason), names in nodes.items()]


def _held_there(
    profile: Profile, pod: Pod, snapshot: Snapshot, feasible: frozenset[str], now: float
) -> list[ReservedNode]:
    """The nodes that only reservations keep the pod from. Leaves the snapshot without what they hold."""
    seats: dict[str, set[str]] = {}
    for name in snapshot.reservations.held():
        if seat := snapshot.reservations.seat(name):
            seats.setdefault(seat.node, set()).add(f"{name.namespace}/{name.reservation}")
            snapshot.reservations.vacate(name)
    if not seats:
        return []
    survey = profile.engine.diagnose(Cycle(pod, snapshot, now))
    return [
        ReservedNode(node, sorted(seats[node])) for node in survey.feasible if node in seats and node not in feasible
    ]


def _standing(node: str, survey: Diagnosis, obstacles: Sequence[str]) -> str:
    others = sum(one != node for one in survey.feasible)
    free = "it may be moved" if others else "nothing else keeps it there"
    verdict = f"it may not be moved: {'; '.join(obstacles)}" if obstacles else free
    return f"runs on {node}; {number_of(others, 'other node')} could take it; {verdict}"


def _waiting(cluster: OfflineCluster, profile: Profile, pod: Pod, survey: Diagnosis, now: float) -> str:
    """Why a pod waits, and why it takes no seat if there are any for it, in the sentences that its condition and its
    Events have."""
    could = f"{number_of(len(survey.feasible), 'node')} could take it" if survey.feasible else survey.message
    name = scheduler_of(pod)
    if name not in profile.scheduler_names:
        return f"is pending; {could}; it belongs to the scheduler {name!r}"
    imagined, key = _imagined(cluster, profile, now), full_name(pod)
    decided, named = imagined.schedule, _reservation_of(cluster, pod)
    refusal = next((one.message for one in decided.unschedulable if (one.namespace, one.pod) == key), None)
    node = next((one.node for one in decided.placements if (one.namespace, one.pod) == key), None)
    if refusal is not None:
        but_for = "without asking for it by name" if named else "alone"
        told = refusal + (f"; {but_for}, {could}" if survey.feasible else "")
    elif node is None:
        told = could
    else:
        told = f"it would go to {node}" + (f", in a seat of reservation {named}" if named else f"; {could}")
    beside = [f"{one.reason}: {one.message}" for one in imagined.events.get(key, ()) if one.message != refusal]
    return "; ".join(["is pending", told.removesuffix(".") if beside else told, *beside])


def _imagined(cluster: OfflineCluster, profile: Profile, now: float) -> SessionDecisions:
    """What `schedule` says; the cluster stays as it is."""
    mark = cluster.snapshot.mark()
    try:
        return decide_session(cluster, profile, now)
    finally:
        cluster.snapshot.undo_to(mark)
        for pod in cluster.pending():
            cluster.roster.forget(pod)

"""Why one pod is where it is: what every node says to it, why it waits, and what keeps it from moving.

Goes in: a cluster that was written down, and a pod of it. Comes out: an `Explanation`, in the sentences that the pod's
condition and its Events have.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restow.model.cluster import Snapshot
from restow.model.objects import Pod
from restow.model.pods import full_name, scheduler_of
from restow.model.words import number_of
from restow.scheduling.answers import Survey
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import Profile
from restow.scheduling.reservations.matching import named_by
from restow.snapshots.offline import Cluster, Decided, Sections, decide, mobility


class Why(msgspec.Struct, frozen=True):
    """A reason, whose it is, and the nodes it keeps the pod from."""

    plugin: str
    reason: str
    nodes: list[str]


class Held(msgspec.Struct, frozen=True):
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
    refusals: list[Why]
    movable: bool | None
    """Whether it may leave its node and another could take it; None for a pod that has none."""
    obstacles: list[str]
    """Every reason why it may not leave its node."""
    held: list[Held]


def explain(cluster: Cluster, profile: Profile, sections: Sections, pod: Pod, now: float) -> Explanation:
    """What every node says to this pod; a pod that is placed is taken off its node for the question. Raises WireError
    for a wrong configuration."""
    snapshot, node = cluster.snapshot, pod.spec.node_name or None
    obstacles = list(mobility(cluster, sections, now).obstacles(pod)) if node else []
    mark = snapshot.mark()
    if node:
        snapshot.remove_pod(pod)
    loose = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))
    survey = profile.engine.survey(Cycle(loose, snapshot, now))
    refused = _by_reason(survey, snapshot)
    held = _held_there(profile, loose, snapshot, frozenset(survey.feasible), now)
    snapshot.undo_to(mark)
    movable = not obstacles and any(one != node for one in survey.feasible) if node else None
    message = _standing(node, survey, obstacles) if node else _waiting(cluster, profile, pod, survey, now)
    feasible = list(survey.feasible) if node or not _reservation_of(cluster, pod) else []
    return Explanation(*full_name(pod), node, message, feasible, refused, movable, obstacles, held)


def _reservation_of(cluster: Cluster, pod: Pod) -> str | None:
    """The only reservation whose seats a pod takes, if it has named one."""
    return named_by(pod, cluster.snapshot.kinship.group_of)


def _by_reason(survey: Survey, snapshot: Snapshot) -> list[Why]:
    nodes: dict[tuple[str, str], set[str]] = {}
    for plugin, refusals in survey.refusals.items():
        for one in refusals:
            names = (snapshot.rows.name(row) or "" for row in one.rows.nonzero()[0].tolist())
            nodes.setdefault((plugin, one.reason), set()).update(names)
    return [Why(plugin, reason, sorted(names)) for (plugin, reason), names in nodes.items()]


def _held_there(profile: Profile, pod: Pod, snapshot: Snapshot, feasible: frozenset[str], now: float) -> list[Held]:
    """The nodes that only reservations keep the pod from. Leaves the snapshot without what they hold."""
    seats: dict[str, set[str]] = {}
    for name in snapshot.reservations.held():
        if seat := snapshot.reservations.seat(name):
            seats.setdefault(seat.node, set()).add(f"{name.namespace}/{name.reservation}")
            snapshot.reservations.vacate(name)
    if not seats:
        return []
    survey = profile.engine.survey(Cycle(pod, snapshot, now))
    return [Held(node, sorted(seats[node])) for node in survey.feasible if node in seats and node not in feasible]


def _standing(node: str, survey: Survey, obstacles: Sequence[str]) -> str:
    others = sum(one != node for one in survey.feasible)
    free = "it may be moved" if others else "nothing else keeps it there"
    verdict = f"it may not be moved: {'; '.join(obstacles)}" if obstacles else free
    return f"runs on {node}; {number_of(others, 'other node')} could take it; {verdict}"


def _waiting(cluster: Cluster, profile: Profile, pod: Pod, survey: Survey, now: float) -> str:
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
    beside = [f"{one.reason}: {one.message}" for one in imagined.told.get(key, ()) if one.message != refusal]
    return "; ".join(["is pending", told.removesuffix(".") if beside else told, *beside])


def _imagined(cluster: Cluster, profile: Profile, now: float) -> Decided:
    """What `schedule` says; the cluster stays as it is."""
    mark = cluster.snapshot.mark()
    try:
        return decide(cluster, profile, now)
    finally:
        cluster.snapshot.undo_to(mark)
        for pod in cluster.pending():
            cluster.roster.forget(pod)

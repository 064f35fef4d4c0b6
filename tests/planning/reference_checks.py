"""Checks of plans by hand, without the code under test: no node over-committed, constraints kept at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from restow.model.objects import Pod
from restow.model.resources import parse_amounts, pod_requests
from restow.model.snapshot import Snapshot
from restow.planning.plan import Plan

ZONE = "topology.kubernetes.io/zone"


def placement_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Nodes above what they offer, and pods that must be apart and meet, at any time while the plan is carried out."""
    pods = {uid: one.pod for uid, one in snapshot.pods.known.items()}
    places = {uid: {one.node} for uid, one in snapshot.pods.known.items()}
    for wave, moves in plan.waves():
        for move in moves:
            if places[move.uid] != {move.source}:
                yield f"{move.pod} is not on {move.source}"
            neighbours = [pods[uid] for uid, where in places.items() if move.target in where and uid != move.uid]
            if any(_must_be_apart(pods[move.uid], one) for one in neighbours):
                yield f"{move.pod} meets another of its kind on {move.target}"
            places[move.uid] = {move.source, move.target}
        yield from _above(snapshot, pods, places, wave)
        for move in moves:
            places[move.uid] = {move.target}


def spread_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Moves that would break a spread over zones if every move were done before the next begins."""
    pods = {uid: one.pod for uid, one in snapshot.pods.known.items()}
    place = {uid: one.node for uid, one in snapshot.pods.known.items()}
    zones = {name: (one.metadata.labels or {})[ZONE] for name in snapshot.rows.names() if (one := snapshot.node(name))}
    for move in sorted(plan.moves, key=lambda one: one.order):
        mine = pods[move.uid]
        for constraint in mine.spec.topology_spread_constraints or ():
            counts = dict.fromkeys(zones.values(), 0)
            for uid, where in place.items():
                counts[zones[where]] += uid != move.uid and pods[uid].metadata.labels == mine.metadata.labels
            if counts[zones[move.target]] + 1 - min(counts.values()) > constraint.max_skew:
                yield f"move {move.order} of {move.pod} to {move.target}: {counts}"
        place[move.uid] = move.target


def claim_names(pod: Pod) -> list[str]:
    """The names of the volume claims of a pod; they begin with the zone of the volume."""
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes or ())
    return [claim.claim_name for claim in claims if claim is not None]


def volume_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Moves away from the zone of a volume, and nodes with more volumes than they can attach, at any time."""
    pods = {uid: one.pod for uid, one in snapshot.pods.known.items()}
    places = {uid: {one.node} for uid, one in snapshot.pods.known.items()}
    for wave, moves in plan.waves():
        for move in moves:
            node = snapshot.node(move.target)
            zone = (node.metadata.labels or {})[ZONE] if node else ""
            if any(not name.startswith(f"{zone}-") for name in claim_names(pods[move.uid])):
                yield f"{move.pod} leaves the zone of its volume for {move.target}"
            places[move.uid] = {move.source, move.target}
        for name in snapshot.rows.names():
            limit = _attachable(snapshot, name)
            attached = sum(len(claim_names(pods[uid])) for uid, where in places.items() if name in where)
            if limit is not None and attached > limit:
                yield f"wave {wave}: {attached} volumes on {name}, which can attach {limit}"
        for move in moves:
            places[move.uid] = {move.target}


def _attachable(snapshot: Snapshot, name: str) -> int | None:
    found = snapshot.storage.csi_node(name)
    drivers = found.spec.drivers if found is not None and found.spec is not None else None
    offers = drivers[0].allocatable if drivers else None
    return offers.count if offers else None


def _must_be_apart(one: Pod, other: Pod) -> bool:
    affinity = one.spec.affinity
    apart = affinity is not None and affinity.pod_anti_affinity is not None
    return apart and one.metadata.labels == other.metadata.labels


def _above(snapshot: Snapshot, pods: Mapping[str, Pod], places: Mapping[str, set[str]], wave: int) -> Iterator[str]:
    for name in snapshot.rows.names():
        node = snapshot.node(name)
        offered = parse_amounts(node.status.allocatable if node else {})
        for resource in ("cpu", "memory"):
            used = sum(pod_requests(pods[uid]).get(resource, 0) for uid, where in places.items() if name in where)
            if used > offered[resource]:
                yield f"wave {wave}: {used} of {offered[resource]} {resource} on {name}"

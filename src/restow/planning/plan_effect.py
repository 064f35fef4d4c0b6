"""The effect of a plan: what the cluster would be like afterwards, and what the plan rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.model.pods import full_name
from restow.model.snapshot import Snapshot
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.plan import Measures, Move, Place, version_key
from restow.planning.plan_request import PlanRequest

MeasureFunction = Callable[[Snapshot], Measures]


def measures_after(
    snapshot: Snapshot, request: PlanRequest, moves: Sequence[Move], measure: MeasureFunction, places: Iterable[Place] = ()
) -> Measures:
    """What `measure` says once the moves are done and the places taken. The snapshot is left as it was."""
    pending = {full_name(pod): pod for pod in request.pending}
    with MoveSimulation(snapshot, request.engine, request.now) as bookings:
        simulate_moves(bookings, moves)
        for place in places:
            snapshot.assume(pending[place.namespace, place.pod], place.node, at=request.now)
        return measure(snapshot)


def object_versions(snapshot: Snapshot, moves: Iterable[Move], places: Iterable[Place] = ()) -> dict[str, str]:
    """The versions of the pods that move and of the nodes they leave or go to, where they are known."""
    found: dict[str, str] = {}
    nodes: set[str] = {place.node for place in places}
    for move in moves:
        nodes |= {move.source, move.target}
        one = snapshot.pods.known.get(move.uid)
        if one is not None:
            found[version_key("Pod", move.pod, move.namespace)] = one.pod.metadata.resource_version
    for name in sorted(nodes):
        node = snapshot.node(name)
        if node is not None:
            found[version_key("Node", name)] = node.metadata.resource_version
    return {key: version for key, version in found.items() if version}

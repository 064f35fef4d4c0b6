"""The effect of a plan: the measures of the cluster after it, and the versions of the objects that it is made for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.plan import Measures, Move, Place, version_key
from restow.planning.plan_request import PlanRequest

MeasureFunction = Callable[[Snapshot], Measures]


def measures_after(
    snapshot: Snapshot,
    request: PlanRequest,
    moves: Sequence[Move],
    measure: MeasureFunction,
    places: Iterable[Place] = (),
) -> Measures:
    """The measures once the moves are done and the pending pods are on their places. The snapshot is left as it was."""
    pending = {namespaced_name(pod): pod for pod in request.pending}
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        simulate_moves(simulation, moves)
        for place in places:
            snapshot.assume(pending[place.namespace, place.pod], place.node, at=request.now)
        return measure(snapshot)


def object_versions(snapshot: Snapshot, moves: Iterable[Move], places: Iterable[Place] = ()) -> dict[str, str]:
    """The resourceVersions of the pods that move and of their sources, targets and places, where they are known."""
    by_key: dict[str, str] = {}
    nodes: set[str] = {place.node for place in places}
    for move in moves:
        nodes |= {move.source, move.target}
        pod = snapshot.pods.known.get(move.uid)
        if pod is not None:
            by_key[version_key("Pod", move.pod, move.namespace)] = pod.pod.metadata.resource_version
    for name in sorted(nodes):
        node = snapshot.node(name)
        if node is not None:
            by_key[version_key("Node", name)] = node.metadata.resource_version
    return {key: version for key, version in by_key.items() if version}

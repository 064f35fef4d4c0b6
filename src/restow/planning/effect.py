"""The effect of a plan: what the cluster would be like afterwards, and what the plan rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.model.cluster import Snapshot
from restow.model.pods import full_name
from restow.planning.bookings import Bookings, carry_out
from restow.planning.plan import Measures, Move, Place, version_key
from restow.planning.request import Request

Measure = Callable[[Snapshot], Measures]


def after(
    snapshot: Snapshot, request: Request, moves: Sequence[Move], measure: Measure, places: Iterable[Place] = ()
) -> Measures:
    """What `measure` says once the moves are done and the places taken. The snapshot is left as it was."""
    pending = {full_name(pod): pod for pod in request.pending}
    with Bookings(snapshot, request.engine, request.now) as bookings:
        carry_out(bookings, moves)
        for place in places:
            snapshot.assume(pending[place.namespace, place.pod], place.node, at=request.now)
        return measure(snapshot)


def versions(snapshot: Snapshot, moves: Iterable[Move], places: Iterable[Place] = ()) -> dict[str, str]:
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

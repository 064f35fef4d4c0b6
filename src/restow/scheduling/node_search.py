"""The best node for a pod of a session: the engine's answer, and what a session adds to it.

Goes in: a cycle, sometimes with the job of its pod. Comes out: `NodeFound` or `NoNodeFound`. A session adds:

    refusals      pods of a class that was refused are refused alike until anything changes on nodes
    kept room     a node may be chosen only if it suits the pod with and without the pods that room is kept for
    reservations  the nodes that a task names come first, and the pod that is to be moved is taken for gone
"""

from __future__ import annotations

from restow.model.cluster import Mask, PodClass
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.jobs import Job
from restow.scheduling.kept_room import KeptRoom
from restow.scheduling.nominated_pods import recheck_without_nominated_pods
from restow.scheduling.schedule_result import NodeFound, NoNodeFound


class NodeSearch:
    def __init__(self, engine: Engine, snapshot: Snapshot, kept_room: KeptRoom) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._kept_room = kept_room
        self._refused: dict[PodClass, tuple[tuple[int, int], NoNodeFound]] = {}
        self._static: dict[PodClass, Mask] = {}

    def find_node(self, cycle: Cycle) -> NodeFound | NoNodeFound:
        """The best node now."""
        known = self._refused.get(cycle.pod_class)
        if known is not None and known[0] == self._generation():
            return known[1]
        result = self._engine.find_node(cycle)
        kept = self._kept_room.kept
        if isinstance(result, NodeFound) and kept and cycle.pod_class.shape.selector_scopes:
            result = recheck_without_nominated_pods(self._engine, cycle, result, [room.pod for room in kept])
        if isinstance(result, NoNodeFound) and self._refuses_whole_class(result):
            self._refused[cycle.pod_class] = (self._generation(), result)
        return result

    def find_node_for_job(self, job: Job, cycle: Cycle) -> NodeFound | NoNodeFound:
        """The best node for a pod of this job. A reserved pod goes to the first of the nodes that its task names and
        that accepts it; the pod that its reservation is to move is taken for gone, except for the room it takes."""
        if job.reservation is None:
            return self.find_node(cycle)
        migrating = migrating_pod(job.reservation)
        if migrating is None:
            return self._first_named_node(job, cycle) or self.find_node(cycle)
        # Not `place`: a refusal given while only the room of a pod counts must not be remembered for other pods.
        with self._snapshot.counting_only_room_of(migrating):
            return self._first_named_node(job, cycle) or self._engine.find_node(cycle)

    def is_statically_feasible(self, cycle: Cycle, node: str) -> bool:
        """Whether the Node object suits the pod, whatever pods are on nodes."""
        mask = self._static.get(cycle.pod_class)
        if mask is None:
            mask = self._static[cycle.pod_class] = self._engine.statically_feasible(cycle)
        row = self._snapshot.rows.find_row(node)
        return row is not None and bool(mask[row])

    def _first_named_node(self, job: Job, cycle: Cycle) -> NodeFound | None:
        fitting = (node for node in job.preferred_nodes(cycle.pod) if self._engine.fits(cycle, node))
        node = next(fitting, None)
        return None if node is None else NodeFound(node, self._snapshot.rows.find_row(node) or 0, 0)

    def _refuses_whole_class(self, result: NoNodeFound) -> bool:
        """Whether a refusal holds for all pods of the class: a nominated pod has room of its own in prospect, and a
        plugin that looks at each pod for itself may accept the next one."""
        return not result.nominated and result.plugins.isdisjoint(self._engine.per_pod_filters)

    def _generation(self) -> tuple[int, int]:
        """Changes with everything that changes on nodes."""
        return self._snapshot.room.changes.generation, self._snapshot.nodes.changes.generation
